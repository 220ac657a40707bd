//! The loader and shared libraries of a program, from its ELF headers.
//!
//! `FROM scratch` has neither. `ldd` is no alternative: it runs the program's loader, and its text for
//! static programs varies. 64-bit little-endian only.

use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::StringTable;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElfError {
    /// It is another kind of file.
    #[error("not a 64-bit little-endian ELF file")]
    Kind,
    /// A header is malformed.
    #[error("cannot read its ELF headers: {0}")]
    Malformed(#[from] object::read::Error),
    /// The names of the libraries are not mapped.
    #[error("cannot read its ELF headers: no segment contains the names of its libraries")]
    NoNames,
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

type Segment = ProgramHeader64<LittleEndian>;

pub(crate) fn needs(file: &[u8]) -> Result<Needs, ElfError> {
    let header = FileHeader64::<LittleEndian>::parse(file).map_err(|_| ElfError::Kind)?;
    let endian = header.endian().map_err(|_| ElfError::Kind)?;
    let segments = header.program_headers(endian, file)?;
    let mut needs = Needs::default();
    for segment in segments {
        if let Some(loader) = segment.interpreter(endian, file)? {
            needs.loader = Some(String::from_utf8_lossy(loader).into_owned());
        }
        if let Some(entries) = segment.dynamic(endian, file)? {
            needs.libraries = libraries(file, endian, entries, segments)?;
        }
    }
    Ok(needs)
}

/// The libraries in the dynamic section. A statically linked program may have the section for its
/// relocations, without libraries.
fn libraries(
    file: &[u8],
    endian: LittleEndian,
    entries: &[elf::Dyn64<LittleEndian>],
    segments: &[Segment],
) -> Result<Vec<String>, ElfError> {
    let entries = entries
        .iter()
        .map(|entry| (entry.d_tag(endian), entry.d_val(endian)));
    let entries: Vec<(i64, u64)> = entries.take_while(|(tag, _)| *tag != elf::DT_NULL).collect();
    let value = |wanted: i64| {
        entries
            .iter()
            .find(|(tag, _)| *tag == wanted)
            .map(|(_, value)| *value)
    };
    let named: Vec<u64> = entries
        .iter()
        .filter(|(tag, _)| *tag == elf::DT_NEEDED)
        .map(|(_, name)| *name)
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let address = value(elf::DT_STRTAB).ok_or(ElfError::NoNames)?;
    let size = value(elf::DT_STRSZ).ok_or(ElfError::NoNames)?;
    let found = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let found = found
        .filter_map(|segment| segment.data_range(endian, file, address, size).ok()?)
        .next();
    let strings = StringTable::new(found.ok_or(ElfError::NoNames)?, 0, size);
    let name = |name: u64| {
        let name = u32::try_from(name).ok().and_then(|name| strings.get(name).ok());
        Ok(String::from_utf8_lossy(name.ok_or(ElfError::NoNames)?).into_owned())
    };
    named.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, PT_DYNAMIC, PT_INTERP, PT_LOAD};

    /// A header and segments of (kind, offset, address, bytes), then their content.
    fn file(segments: &[(u32, u64, u64, u64)], rest: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
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

    fn dynamic(entries: &[(i64, u64)]) -> Vec<u8> {
        let words = entries
            .iter()
            .flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()]);
        words.flatten().collect()
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
        check(b"\x7fELF\x02\x01\x01", "not a 64-bit little-endian ELF file");
        let mut narrow = file(&[], b"");
        narrow[4] = 1;
        check(&narrow, "not a 64-bit little-endian ELF file");
        let mut big_endian = file(&[], b"");
        big_endian[5] = 2;
        check(&big_endian, "not a 64-bit little-endian ELF file");
        check(&file(&[], b""), "nothing");
        check(&file(&[(PT_LOAD, 0, 0x1000, 64)], b""), "nothing");
        check(
            &file(&[(PT_LOAD, 0, 0x1000, 64)], b"")[..100],
            "cannot read its ELF headers: Invalid ELF program header size or alignment",
        );
        // statically linked, relocates itself
        let relocated = file(&[(PT_DYNAMIC, 120, 0, 32)], &dynamic(&[(DT_STRTAB, 9), (0, 0)]));
        check(&relocated, "nothing");
        check(&file(&[(PT_INTERP, 120, 0, 4)], b"/ld\0"), "/ld");
        check(
            &file(&[(PT_INTERP, 120, 0, 3)], b"/ld"),
            "cannot read its ELF headers: Invalid ELF interpreter segment data",
        );
        let entries = [
            (DT_NEEDED, 1),
            (DT_STRTAB, 0x1000),
            (DT_STRSZ, 9),
            (0, 0),
            (DT_NEEDED, 9),
        ];
        let segments = [(PT_DYNAMIC, 176, 0, 80), (PT_LOAD, 256, 0x1000, 9)];
        let rest = [dynamic(&entries), b"\0libc.so\0".to_vec()].concat();
        check(&file(&segments, &rest), "libc.so");
        let unmapped = file(&[(PT_DYNAMIC, 120, 0, 80)], &rest);
        check(
            &unmapped,
            "cannot read its ELF headers: no segment contains the names of its libraries",
        );
        check(
            &file(&[(PT_DYNAMIC, u64::MAX, 0, 64)], b""),
            "cannot read its ELF headers: Invalid ELF dynamic segment offset or size",
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
