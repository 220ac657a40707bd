//! Template objects besides values: `.Files` and `.Capabilities`.

use super::glob::Glob;
use crate::capabilities::{Capabilities, HELM_VERSION};
use crate::chart::File;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_template::{Entries, Fault, Host, Int, Kind, List, Map, Method, Str, Ty, Value};
use serde_json::Value as Json;
use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const NO_ARGUMENT: Method = Method {
    params: &[],
    variadic: None,
};
const ONE_TEXT: Method = Method {
    params: &[Ty::Str],
    variadic: None,
};

fn text(args: &[Value]) -> Str {
    match args.first() {
        Some(Value::String(text)) => text.clone(),
        _ => Str::from(""),
    }
}

/// `.Files`: the chart's other files, by path. Content is shared with the chart until a template reads
/// it.
#[derive(Debug)]
pub(super) struct Files(BTreeMap<Arc<str>, Str>);

impl Files {
    pub(super) fn new(files: &[File]) -> Self {
        let entry = |file: &File| (Arc::clone(&file.name), Str::from(Arc::clone(&file.data)));
        Self(files.iter().map(entry).collect())
    }

    fn get(&self, name: &Str) -> Option<&Str> {
        self.0.get(&*name.lossy())
    }

    fn as_data(&self, value: impl Fn(&[u8]) -> String) -> Value {
        let entry = |(name, data): (&Arc<str>, &Str)| {
            let base = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            (base.to_owned(), Json::String(value(data.as_bytes())))
        };
        let data: serde_json::Map<String, Json> = self.0.iter().map(entry).collect();
        let yaml = equate_manifest::yaml::to_string(&Json::Object(data));
        Value::from(yaml.strip_suffix('\n').unwrap_or(&yaml))
    }
}

impl Host for Files {
    fn type_name(&self) -> &'static str {
        "engine.files"
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn field(&self, name: &str) -> Option<Value> {
        // a missing file has no bytes, which print as `[]`
        let data = self.0.get(name).cloned().unwrap_or_else(|| "".into());
        Some(Value::Bytes(data))
    }

    fn method(&self, name: &str) -> Option<Method> {
        match name {
            "Get" | "GetBytes" | "Glob" | "Lines" => Some(ONE_TEXT),
            "AsConfig" | "AsSecrets" => Some(NO_ARGUMENT),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, Fault> {
        let wanted = text(args);
        let found = || self.get(&wanted);
        Ok(match name {
            "Get" => Value::String(found().cloned().unwrap_or_else(|| "".into())),
            "GetBytes" => Value::Bytes(found().cloned().unwrap_or_else(|| "".into())),
            "Glob" => {
                let glob = Glob::new(&wanted.lossy());
                let matching = self.0.iter().filter(|(name, _)| glob.matches(name));
                let matching = matching.map(|(name, data)| (Arc::clone(name), data.clone()));
                Value::Host(Rc::new(Self(matching.collect())))
            }
            "Lines" => Value::List(match found().map(Str::as_bytes) {
                None => List::strings::<&str>([]),
                Some([]) => List::strings::<&str>([]),
                Some(data) => {
                    let lines = data
                        .strip_suffix(b"\n")
                        .unwrap_or(data)
                        .split(|byte| *byte == b'\n');
                    List::strings(lines.map(Str::from))
                }
            }),
            "AsConfig" => self.as_data(|data| String::from_utf8_lossy(data).into_owned()),
            "AsSecrets" => self.as_data(|data| STANDARD.encode(data)),
            _ => return Err(Fault::message(format!("{name} is not a method of engine.files"))),
        })
    }

    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        let entry = |(name, data): (&Arc<str>, &Str)| (Value::from(&**name), Value::Bytes(data.clone()));
        Some(self.0.iter().map(entry).collect())
    }

    fn count(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn to_json(&self) -> Result<Json, Fault> {
        let entry = |(name, data): (&Arc<str>, &Str)| {
            (name.to_string(), Json::String(STANDARD.encode(data.as_bytes())))
        };
        Ok(Json::Object(self.0.iter().map(entry).collect()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cluster {
    kube: Rc<Struct>,
    versions: Rc<Versions>,
    helm: Rc<Struct>,
}

impl Cluster {
    pub(super) fn new(capabilities: &Capabilities) -> Self {
        let kube = &capabilities.kube_version;
        Self {
            kube: Rc::new(Struct {
                type_name: "common.KubeVersion",
                fields: vec![
                    ("Version", kube.version.as_str().into()),
                    ("Major", kube.major.as_str().into()),
                    ("Minor", kube.minor.as_str().into()),
                ],
                methods: vec![
                    ("String", kube.normalized.clone()),
                    ("GitVersion", kube.version.clone()),
                ],
                text: Some(kube.normalized.clone()),
            }),
            versions: Rc::new(Versions(capabilities.api_versions.clone())),
            helm: Rc::new(Struct {
                type_name: "version.BuildInfo",
                fields: vec![
                    ("Version", HELM_VERSION.into()),
                    ("GitCommit", "".into()),
                    ("GitTreeState", "".into()),
                    ("GoVersion", "".into()),
                    ("KubeClientVersion", "v1.36".into()),
                ],
                methods: Vec::new(),
                text: None,
            }),
        }
    }

    fn parts(&self) -> [(&'static str, Value); 3] {
        [
            ("KubeVersion", Value::Host(Rc::clone(&self.kube) as Rc<dyn Host>)),
            (
                "APIVersions",
                Value::Host(Rc::clone(&self.versions) as Rc<dyn Host>),
            ),
            ("HelmVersion", Value::Host(Rc::clone(&self.helm) as Rc<dyn Host>)),
        ]
    }
}

impl Host for Cluster {
    fn type_name(&self) -> &'static str {
        "*common.Capabilities"
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn field(&self, name: &str) -> Option<Value> {
        let found = self.parts().into_iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value)
    }

    fn method(&self, name: &str) -> Option<Method> {
        (name == "Copy").then_some(NO_ARGUMENT)
    }

    fn call(&self, _name: &str, _args: &[Value]) -> Result<Value, Fault> {
        Ok(Value::Host(Rc::new(self.clone())))
    }

    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        let entries = self.parts().into_iter();
        Some(entries.map(|(name, value)| (name.into(), value)).collect())
    }

    fn to_json(&self) -> Result<Json, Fault> {
        let mut json = serde_json::Map::new();
        json.insert("KubeVersion".to_owned(), self.kube.to_json()?);
        json.insert("APIVersions".to_owned(), self.versions.to_json()?);
        json.insert("HelmVersion".to_owned(), self.helm.to_json()?);
        Ok(Json::Object(json))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
struct Struct {
    type_name: &'static str,
    fields: Vec<(&'static str, Value)>,
    methods: Vec<(&'static str, String)>,
    text: Option<String>,
}

/// The JSON field names of `BuildInfo`.
const JSON_NAMES: [(&str, &str); 5] = [
    ("Version", "version"),
    ("GitCommit", "git_commit"),
    ("GitTreeState", "git_tree_state"),
    ("GoVersion", "go_version"),
    ("KubeClientVersion", "kube_client_version"),
];

impl Host for Struct {
    fn type_name(&self) -> &'static str {
        self.type_name
    }

    fn field(&self, name: &str) -> Option<Value> {
        let found = self.fields.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| value.clone())
    }

    fn method(&self, name: &str) -> Option<Method> {
        let has = self.methods.iter().any(|(own, _)| *own == name);
        has.then_some(NO_ARGUMENT)
    }

    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, Fault> {
        let found = self.methods.iter().find(|(own, _)| *own == name);
        found
            .map(|(_, text)| text.as_str().into())
            .ok_or_else(|| Fault::message(format!("{name} is not a method of {}", self.type_name)))
    }

    fn text(&self) -> Option<String> {
        self.text.clone()
    }

    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        let entries = self.fields.iter();
        Some(
            entries
                .map(|(name, value)| ((*name).into(), value.clone()))
                .collect(),
        )
    }

    fn to_json(&self) -> Result<Json, Fault> {
        let renamed = |name: &str| {
            let found = JSON_NAMES.iter().find(|(own, _)| *own == name);
            found.filter(|_| self.text.is_none()).map(|(_, json)| *json)
        };
        let mut json = serde_json::Map::new();
        for (name, value) in &self.fields {
            let written = value.to_json(1)?;
            match renamed(name) {
                Some(_) if written == "" => {}
                Some(renamed) => drop(json.insert(renamed.to_owned(), written)),
                None => drop(json.insert((*name).to_owned(), written)),
            }
        }
        Ok(Json::Object(json))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Debug)]
struct Versions(Vec<String>);

impl Host for Versions {
    fn type_name(&self) -> &'static str {
        "common.VersionSet"
    }

    fn kind(&self) -> Kind {
        Kind::Slice
    }

    fn method(&self, name: &str) -> Option<Method> {
        (name == "Has").then_some(ONE_TEXT)
    }

    fn call(&self, _name: &str, args: &[Value]) -> Result<Value, Fault> {
        let wanted = text(args);
        let has = self.0.iter().any(|own| own.as_bytes() == wanted.as_bytes());
        Ok(Value::Bool(has))
    }

    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        let entries = (0_i64..).zip(&self.0);
        Some(
            entries
                .map(|(index, version)| (Value::Int(index, Int::Int), version.as_str().into()))
                .collect(),
        )
    }

    fn count(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn to_json(&self) -> Result<Json, Fault> {
        Ok(self.0.iter().map(String::as_str).collect())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `.Chart`: `Chart.yaml` under Helm's Go field names.
pub(super) fn chart(metadata: &crate::Metadata, is_root: bool) -> Map {
    let texts = |texts: &[String]| List::new(texts.iter().map(|text| text.as_str().into()).collect());
    let map = |entries: Vec<(&str, Value)>| {
        Map::of(
            Entries::Any,
            entries
                .into_iter()
                .map(|(name, value)| (Str::from(name), value))
                .collect(),
        )
    };
    let maintainers = metadata.maintainers.iter().map(|maintainer| {
        Value::Map(map(vec![
            ("Name", maintainer.name.as_str().into()),
            ("Email", maintainer.email.as_str().into()),
            ("URL", maintainer.url.as_str().into()),
        ]))
    });
    let dependencies = metadata.dependencies.iter().map(|dependency| {
        Value::Map(map(vec![
            ("Name", dependency.name.as_str().into()),
            ("Version", dependency.version.as_str().into()),
            ("Repository", dependency.repository.as_str().into()),
            ("Condition", dependency.condition.as_str().into()),
            ("Tags", texts(&dependency.tags).into()),
            ("Enabled", dependency.enabled.into()),
            (
                "ImportValues",
                List::new(dependency.import_values.iter().map(super::value).collect()).into(),
            ),
            ("Alias", dependency.alias.as_str().into()),
        ]))
    });
    let annotations = metadata.annotations.iter();
    let annotations = annotations.map(|(key, value)| (Str::from(key.as_str()), value.as_str().into()));
    let annotations = if metadata.annotations.is_empty() {
        Map::nil(Entries::String)
    } else {
        Map::of(Entries::String, annotations.collect())
    };
    map(vec![
        ("Name", metadata.name.as_str().into()),
        ("Home", metadata.home.as_str().into()),
        ("Sources", texts(&metadata.sources).into()),
        ("Version", metadata.version.as_str().into()),
        ("Description", metadata.description.as_str().into()),
        ("Keywords", texts(&metadata.keywords).into()),
        ("Maintainers", List::new(maintainers.collect()).into()),
        ("Icon", metadata.icon.as_str().into()),
        ("APIVersion", metadata.api_version.as_str().into()),
        ("Condition", metadata.condition.as_str().into()),
        ("Tags", metadata.tags.as_str().into()),
        ("AppVersion", metadata.app_version.as_str().into()),
        ("Deprecated", metadata.deprecated.into()),
        ("Annotations", annotations.into()),
        ("KubeVersion", metadata.kube_version.as_str().into()),
        ("Dependencies", List::new(dependencies.collect()).into()),
        ("Type", metadata.kind.as_str().into()),
        ("IsRoot", is_root.into()),
    ])
}
