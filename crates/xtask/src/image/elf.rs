//! The loader and shared libraries of a program, from its ELF headers.
//!
//! `FROM scratch` has neither. `ldd` is no alternative: it runs the program's loader, and its text for
//! static programs varies. 64-bit little-endian only.

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElfError {
    /// It is another kind of file.
    #[error("not a 64-bit little-endian ELF file")]
    Kind,
    /// A header points outside of the file.
    #[error("it ends before its {0}")]
    Short(&'static str),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) loader: Option<String>,
    pub(crate) libraries: Vec<String>,
}

impl Needs {
    pub(crate) fn nothing(&self) -> bool {
        self.loader.is_none() && self.libraries.is_empty()
    }
}

impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.loader.iter().chain(&self.libraries);
        let all: Vec<&str> = all.map(String::as_str).collect();
        match all.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&all.join(", ")),
        }
    }
}

/// A part of the file that is mapped, or that the loader reads.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
}

pub(crate) fn needs(file: &[u8]) -> Result<Needs, ElfError> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(ElfError::Kind);
    }
    let segments = segments(file)?;
    let loader = segments.iter().find(|segment| segment.kind == PT_INTERP);
    let loader = loader.map(|segment| text(file, segment.offset)).transpose()?;
    let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC);
    let libraries = dynamic.map(|dynamic| libraries(file, dynamic, &segments));
    Ok(Needs {
        loader,
        libraries: libraries.transpose()?.unwrap_or_default(),
    })
}

fn segments(file: &[u8]) -> Result<Vec<Segment>, ElfError> {
    const WHAT: &str = "program headers";
    let table = number(file, 0x20, 8, WHAT)?;
    let (size, count) = (number(file, 0x36, 2, WHAT)?, number(file, 0x38, 2, WHAT)?);
    let read = |at: u64| -> Result<Segment, ElfError> {
        let begin = at.checked_mul(size).and_then(|at| table.checked_add(at));
        let begin = begin.ok_or(ElfError::Short(WHAT))?;
        let field = |offset: u64, bytes| {
            let at = begin.checked_add(offset).ok_or(ElfError::Short(WHAT))?;
            number(file, at, bytes, WHAT)
        };
        Ok(Segment {
            kind: u32::try_from(field(0, 4)?).unwrap_or_default(),
            offset: field(8, 8)?,
            address: field(16, 8)?,
            bytes: field(32, 8)?,
        })
    };
    (0..count).map(read).collect()
}

/// The libraries in the dynamic section. A statically linked program may have the section for its
/// relocations, without libraries.
fn libraries(file: &[u8], dynamic: &Segment, segments: &[Segment]) -> Result<Vec<String>, ElfError> {
    const WHAT: &str = "dynamic section";
    let mut names = Vec::new();
    let mut strings = None;
    for entry in 0..dynamic.bytes / 16 {
        let at = dynamic
            .offset
            .checked_add(entry * 16)
            .ok_or(ElfError::Short(WHAT))?;
        let tag = number(file, at, 8, WHAT)?;
        let value = number(file, at.checked_add(8).ok_or(ElfError::Short(WHAT))?, 8, WHAT)?;
        match tag {
            DT_NULL => break,
            DT_NEEDED => names.push(value),
            DT_STRTAB => strings = Some(value),
            _ => {}
        }
    }
    let name = |name: u64| {
        let address = strings.and_then(|strings| strings.checked_add(name));
        let offset = address.and_then(|address| offset(address, segments));
        text(file, offset.ok_or(ElfError::Short("names of libraries"))?)
    };
    names.into_iter().map(name).collect()
}

fn offset(address: u64, segments: &[Segment]) -> Option<u64> {
    let mapped = segments.iter().filter(|segment| segment.kind == PT_LOAD);
    mapped
        .filter_map(|segment| {
            let inside = address.checked_sub(segment.address)?;
            (inside < segment.bytes).then(|| segment.offset.checked_add(inside))?
        })
        .next()
}

fn number(file: &[u8], at: u64, bytes: usize, what: &'static str) -> Result<u64, ElfError> {
    let at = usize::try_from(at).ok();
    let found = at.and_then(|at| file.get(at..at.checked_add(bytes)?));
    let found = found.ok_or(ElfError::Short(what))?;
    Ok(found
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn text(file: &[u8], at: u64) -> Result<String, ElfError> {
    let rest = usize::try_from(at).ok().and_then(|at| file.get(at..));
    let rest = rest.ok_or(ElfError::Short("names"))?;
    let end = rest.iter().position(|byte| *byte == 0);
    Ok(String::from_utf8_lossy(&rest[..end.ok_or(ElfError::Short("names"))?]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header and segments of (kind, offset, address, bytes), then their content.
    fn file(segments: &[(u32, u64, u64, u64)], rest: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(0x20, 0);
        file.extend(64_u64.to_le_bytes());
        file.resize(0x36, 0);
        file.extend(56_u16.to_le_bytes());
        file.extend(u16::try_from(segments.len()).unwrap().to_le_bytes());
        file.resize(64, 0);
        for (kind, offset, address, bytes) in segments {
            file.extend(kind.to_le_bytes());
            file.extend([0; 4]);
            file.extend(offset.to_le_bytes());
            file.extend(address.to_le_bytes());
            file.extend([0; 8]);
            file.extend(bytes.to_le_bytes());
            file.extend([0; 16]);
        }
        file.extend(rest);
        file
    }

    fn dynamic(entries: &[(u64, u64)]) -> Vec<u8> {
        let words = entries.iter().flat_map(|(tag, value)| [*tag, *value]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn headers_are_read() {
        let check = |file: &[u8], expected: &str| {
            let said = match needs(file) {
                Ok(needs) => needs.to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected);
        };
        check(b"#!/bin/sh", "not a 64-bit little-endian ELF file");
        check(b"\x7fELF\x01\x01", "not a 64-bit little-endian ELF file");
        check(b"\x7fELF\x02\x01", "it ends before its program headers");
        check(&file(&[], b""), "nothing");
        check(&file(&[(PT_LOAD, 0, 0x1000, 64)], b""), "nothing");
        // statically linked, relocates itself
        let relocated = file(&[(PT_DYNAMIC, 120, 0, 32)], &dynamic(&[(DT_STRTAB, 9), (0, 0)]));
        check(&relocated, "nothing");
        check(&file(&[(PT_INTERP, 120, 0, 4)], b"/ld\0"), "/ld");
        check(
            &file(&[(PT_INTERP, 120, 0, 4)], b"/ld"),
            "it ends before its names",
        );
        let entries = dynamic(&[(DT_NEEDED, 1), (DT_STRTAB, 0x1000), (0, 0), (DT_NEEDED, 9)]);
        let segments = [(PT_DYNAMIC, 176, 0, 64), (PT_LOAD, 240, 0x1000, 9)];
        let rest = [entries, b"\0libc.so\0".to_vec()].concat();
        check(&file(&segments, &rest), "libc.so");
        let unmapped = file(&[(PT_DYNAMIC, 120, 0, 64)], &rest);
        check(&unmapped, "it ends before its names of libraries");
        check(
            &file(&[(PT_DYNAMIC, u64::MAX, 0, 64)], b""),
            "it ends before its dynamic section",
        );
    }

    /// A dynamically linked program of this machine.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
    fn a_real_program_needs_the_c_library() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&file).unwrap();
        assert!(!needs.nothing());
        assert!(needs.loader.is_some());
        assert!(
            needs.libraries.iter().any(|name| name.starts_with("libc.so")),
            "{needs}"
        );
    }
}
