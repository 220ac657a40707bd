//! The named formats of rules, with apimachinery's messages (1.36).

use crate::builtin::names;
use crate::crd::formats::Format;
use crate::crd::names::dns1035_label;
use equate_cel::{NamedFormat, uri_problem};
use equate_manifest::schema::SchemaType;

pub(crate) const ALL: &[NamedFormat] = &[
    format("dns1123Label", names::dns_label),
    format("dns1123Subdomain", names::dns_subdomain),
    format("dns1035Label", dns1035_label),
    format("qualifiedName", names::qualified_name),
    format("dns1123LabelPrefix", |text| names::dns_label(&masked(text))),
    format("dns1123SubdomainPrefix", |text| {
        names::dns_subdomain(&masked(text))
    }),
    format("dns1035LabelPrefix", |text| dns1035_label(&masked(text))),
    format("labelValue", names::label_value),
    format("uri", |text| uri_problem(text).into_iter().collect()),
    format("uuid", |text| {
        problem("uuid", text, "does not match the UUID format")
    }),
    format("byte", |text| problem("byte", text, "invalid base64")),
    format("date", |text| problem("date", text, "invalid date")),
    format("datetime", |text| problem("datetime", text, "invalid datetime")),
];

const fn format(name: &'static str, problems: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { name, problems }
}

/// A prefix may end in a dash: the name goes on.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut whole = rest.to_owned();
            whole.pop();
            whole.push('a');
            whole
        }
        _ => text.to_owned(),
    }
}

fn problem(format: &str, text: &str, message: &str) -> Vec<String> {
    let matches =
        Format::for_type(format, Some(SchemaType::String), false).is_some_and(|format| format.matches(text));
    (!matches).then(|| message.to_owned()).into_iter().collect()
}
