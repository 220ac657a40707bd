//! Decryption: which files are decrypted, and when.

use crate::memory::Memory;
use base64::Engine as _;
use equate_kustomize::{Loaders, Place, SecretError, SecretFile, Secrets, Spec, Substitution, build_with};
use equate_manifest::object::Object;

/// Decrypts content that begins with `sealed`, and records the request.
struct Opener;

impl Secrets for Opener {
    fn file(&self, file: &SecretFile<'_>) -> Result<Option<Vec<u8>>, SecretError> {
        let text = std::str::from_utf8(file.content)?;
        let Some(rest) = text.strip_prefix("sealed ") else {
            return Ok(None);
        };
        if rest.contains("foreign") {
            return Err("sealed for another".into());
        }
        let named = format!("# {} {}\n", file.name, file.is_env);
        Ok(Some(format!("{named}{rest}").into_bytes()))
    }

    fn object(&self, object: &mut Object) -> Result<(), SecretError> {
        match object.0.remove("sops").as_ref().and_then(|sops| sops.as_str()) {
            None => {}
            Some("foreign") => return Err("sealed for another".into()),
            Some(opened) => {
                object.0["data"]["opened"] = opened.into();
            }
        }
        Ok(())
    }
}

fn built(files: &[(&str, &str)]) -> String {
    let tree = Memory::new(files);
    let spec = Spec {
        path: "top".to_owned(),
        substitute: Some(Substitution {
            variables: [("who".to_owned(), "you".to_owned())].into(),
            always: false,
            strict: true,
        }),
        ..Spec::default()
    };
    let loaders = Loaders {
        secrets: Some(&Opener),
        ..Loaders::default()
    };
    match build_with(&tree, &spec, loaders) {
        Ok(built) => {
            let objects = built.objects.iter().map(|resource| {
                let object = &resource.object;
                format!("{} {}", object.name(), object.0["data"])
            });
            objects.collect::<Vec<_>>().join("\n")
        }
        Err(error) => {
            assert!(error.fault.decryption_fault().is_some() && error.place != Place::default());
            match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            }
        }
    }
}

#[test]
fn files_of_secret_generators_and_patches() {
    let top = "generatorOptions: {disableNameSuffixHash: true}\n\
               secretGenerator:\n- name: s\n  envs: [a.env]\n  files: [b.bin, k.json=b.bin, plain]\n\
               configMapGenerator:\n- name: c\n  files: [b.bin]\n\
               patches:\n- path: p.yaml\n\
               resources: [o.yaml]\n";
    let found = built(&[
        ("top/kustomization.yaml", top),
        ("top/a.env", "sealed A=${who}\n"),
        ("top/b.bin", "sealed it\n"),
        ("top/plain", "plain\n"),
        (
            "top/p.yaml",
            "sealed {apiVersion: v1, kind: ConfigMap, metadata: {name: o}, data: {patched: '1'}}\n",
        ),
        (
            "top/o.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}, sops: 'for ${who}', data: {}}\n",
        ),
    ]);
    let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let secret = serde_json::json!({
        "A": encoded("${who}"),
        "b.bin": encoded("# b.bin false\nit\n"),
        "k.json": encoded("# k.json false\nit\n"),
        "plain": encoded("plain\n"),
    });
    assert_eq!(
        found,
        format!(
            "o {{\"opened\":\"for you\",\"patched\":\"1\"}}\nc {{\"b.bin\":\"sealed it\\n\"}}\ns {secret}"
        )
    );
}

#[test]
fn failed_decryption_names_its_file() {
    let generator = "secretGenerator:\n- name: s\n  files: [b.bin]\n";
    for (top, expected) in [
        (
            generator,
            "top/kustomization.yaml:2:3: 'b.bin' cannot be decrypted: sealed for another",
        ),
        (
            "resources: [base]\n",
            "top/base/kustomization.yaml:2:3: 'b.bin' cannot be decrypted: sealed for another; included from \
             top/kustomization.yaml:1:13",
        ),
        (
            "resources: [o.yaml]\n",
            "top/o.yaml:1:1: ConfigMap.v1.[noGrp]/o cannot be decrypted: sealed for another",
        ),
    ] {
        let found = built(&[
            ("top/kustomization.yaml", top),
            ("top/b.bin", "sealed foreign\n"),
            ("top/base/kustomization.yaml", generator),
            ("top/base/b.bin", "sealed foreign\n"),
            (
                "top/o.yaml",
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: o}, sops: foreign, data: {}}\n",
            ),
        ]);
        assert_eq!(found, expected);
    }
}
