//! Stands in until discovery, OpenAPI and tables land.
pub(crate) mod discovery {
    use crate::registry::Resource;
    use serde_json::Value;
    use std::sync::Arc;
    type R = [Arc<Resource>];
    pub(crate) fn root_paths(_: &R) -> Value {
        Value::Null
    }
    pub(crate) fn version() -> Value {
        Value::Null
    }
    pub(crate) fn api_versions(_: &str) -> Value {
        Value::Null
    }
    pub(crate) fn group_list(_: &R) -> Value {
        Value::Null
    }
    pub(crate) fn resource_list(_: &R, _: &str, _: &str) -> Option<Value> {
        None
    }
    pub(crate) fn group(_: &R, _: &str) -> Option<Value> {
        None
    }
    pub(crate) fn aggregated(_: &R, _: bool, _: &str) -> Value {
        Value::Null
    }
}
pub(crate) mod openapi {
    use crate::registry::Resource;
    use serde_json::Value;
    use std::sync::Arc;
    type R = [Arc<Resource>];
    pub(crate) fn hash(_: &[u8]) -> String {
        String::new()
    }
    pub(crate) fn v2_not_supported() -> crate::status::ApiError {
        crate::status::ApiError::not_supported("x")
    }
    pub(crate) fn group_versions(_: &R) -> Vec<String> {
        vec![]
    }
    pub(crate) fn index(_: &[(String, String)]) -> Value {
        Value::Null
    }
    pub(crate) fn document(_: &R, _: &str) -> Option<Vec<u8>> {
        None
    }
}
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
