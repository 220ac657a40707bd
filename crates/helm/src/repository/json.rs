//! An index in JSON, entry by entry: only one version at a time is in memory as a whole.

use super::index::{Charts, Entry, IndexError, IndexLimits};
use crate::json_weight;
use equate_manifest::go::version::Version;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::io::BufRead;

/// Memory of one version: real ones take some kilobytes.
const VERSION_MEMORY_MAX: usize = 16 << 20;

/// An index that is being read.
struct Reading<'l, E> {
    index: Charts<E>,
    head: Map<String, Value>,
    /// Charts and versions that may follow.
    left: usize,
    limits: &'l IndexLimits,
    /// The error that ended the reading, if it is not one of JSON.
    failure: Option<IndexError>,
}

/// An index and its other fields.
type Parts<E> = (Charts<E>, Map<String, Value>);

/// Reads an index; `None` if it is not JSON, or not as expected.
pub(super) fn read<E: From<Entry>>(
    reader: &mut impl BufRead,
    limits: &IndexLimits,
) -> Result<Option<Parts<E>>, IndexError> {
    let mut reading = Reading {
        index: Charts::default(),
        head: Map::new(),
        left: limits.entries_max,
        limits,
        failure: None,
    };
    let mut text = serde_json::Deserializer::from_reader(reader);
    let read = Document(&mut reading).deserialize(&mut text);
    let read = read.and_then(|()| text.end());
    match (reading.failure, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) if error.is_io() => Err(IndexError::Read(error.into())),
        (None, Err(_)) => Ok(None),
        (None, Ok(())) => Ok(Some((reading.index, reading.head))),
    }
}

impl<E: From<Entry>> Reading<'_, E> {
    fn count<D: Error>(&mut self) -> Result<(), D> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return Err(self.fail(IndexError::Entries(self.limits.entries_max))),
        }
        Ok(())
    }

    fn version<D: Error>(&mut self, chart: &str, text: &str) -> Result<Option<(Version, E)>, D> {
        self.count()?;
        if !json_weight::is_within(text.as_bytes(), VERSION_MEMORY_MAX) {
            return Err(self.fail(IndexError::Memory(VERSION_MEMORY_MAX)));
        }
        let entry = serde_json::from_str(text).map_err(D::custom)?;
        let version = self.index.version(chart, &entry);
        version.map_err(|error| self.fail(error))
    }

    /// Ends the reading.
    fn fail<D: Error>(&mut self, failure: IndexError) -> D {
        let error = D::custom(&failure);
        self.failure = Some(failure);
        error
    }
}

struct Document<'r, 'l, E>(&'r mut Reading<'l, E>);

impl<'de, E: From<Entry>> DeserializeSeed<'de> for Document<'_, '_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_map(self)
    }
}

impl<'de, E: From<Entry>> Visitor<'de> for Document<'_, '_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Self(reading) = self;
        let mut has_entries = false;
        while let Some(key) = fields.next_key::<String>()? {
            match key.to_lowercase().as_str() {
                "entries" if has_entries => return Err(A::Error::duplicate_field("entries")),
                "entries" => {
                    has_entries = true;
                    fields.next_value_seed(AllCharts(reading))?;
                }
                "apiversion" => {
                    let version: Box<RawValue> = fields.next_value()?;
                    let version = serde_json::from_str(version.get()).map_or(Value::Null, Value::String);
                    reading.head.insert(key, version);
                }
                _ => {
                    let _: IgnoredAny = fields.next_value()?;
                }
            }
        }
        Ok(())
    }
}

struct AllCharts<'r, 'l, E>(&'r mut Reading<'l, E>);

impl<'de, E: From<Entry>> DeserializeSeed<'de> for AllCharts<'_, '_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_any(self)
    }
}

impl<'de, E: From<Entry>> Visitor<'de> for AllCharts<'_, '_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("charts")
    }

    fn visit_unit<F: Error>(self) -> Result<(), F> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut charts: A) -> Result<(), A::Error> {
        let Self(reading) = self;
        while let Some(chart) = charts.next_key::<String>()? {
            if reading.index.has(&chart) {
                return Err(A::Error::custom("the chart is listed twice"));
            }
            reading.count()?;
            let versions = charts.next_value_seed(Versions {
                reading,
                chart: &chart,
            })?;
            reading.index.insert(chart, versions);
        }
        Ok(())
    }
}

struct Versions<'r, 'l, E> {
    reading: &'r mut Reading<'l, E>,
    chart: &'r str,
}

impl<'de, E: From<Entry>> DeserializeSeed<'de> for Versions<'_, '_, E> {
    type Value = Vec<(Version, E)>;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Self::Value, D::Error> {
        text.deserialize_any(self)
    }
}

impl<'de, E: From<Entry>> Visitor<'de> for Versions<'_, '_, E> {
    type Value = Vec<(Version, E)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("versions")
    }

    fn visit_unit<F: Error>(self) -> Result<Self::Value, F> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut versions = Vec::new();
        while let Some(entry) = entries.next_element::<Box<RawValue>>()? {
            versions.extend(self.reading.version::<A::Error>(self.chart, entry.get())?);
        }
        Ok(versions)
    }
}
