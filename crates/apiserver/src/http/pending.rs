//! Stands in until tables land.
pub(crate) mod table {
    use crate::registry::Resource;
    use serde_json::Value;
    #[derive(Debug, Clone, Copy)]
    pub enum IncludeObject {
        None,
        Metadata,
        Object,
    }
    pub(crate) fn render<'a>(
        _r: &Resource,
        _rows: impl Iterator<Item = &'a Value>,
        _i: IncludeObject,
        _now: jiff::Timestamp,
    ) -> Value {
        Value::Null
    }
}
