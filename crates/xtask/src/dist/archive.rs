//! An archive that depends on nothing but its files and one time.

use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) is_program: bool,
}

impl Entry {
    pub(super) fn text(path: impl Into<String>, content: Vec<u8>) -> Self {
        Self {
            path: path.into(),
            content,
            is_program: false,
        }
    }
}

/// `time` is in seconds since 1970.
pub(super) fn tar_gz(mut entries: Vec<Entry>, time: u64) -> io::Result<Vec<u8>> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut tar = tar::Builder::new(Vec::new());
    for entry in &entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(entry.content.len() as u64);
        header.set_mode(if entry.is_program { 0o755 } else { 0o644 });
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, &entry.path, entry.content.as_slice())?;
    }
    let tar = tar.into_inner()?;
    // without a name and time of its own
    let mut gz = GzBuilder::new().write(Vec::new(), Compression::best());
    gz.write_all(&tar)?;
    gz.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_order_of_files_makes_no_difference() {
        let program = Entry {
            path: "equate".into(),
            content: b"\x7fELF".to_vec(),
            is_program: true,
        };
        let page = Entry::text("man/man1/equate.1", b".TH".to_vec());
        let one = tar_gz(vec![program.clone(), page.clone()], 1_700_000_000).unwrap();
        assert_eq!(one, tar_gz(vec![page, program], 1_700_000_000).unwrap());

        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(one.as_slice()));
        let mut found = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let header = entry.header();
            found.push((
                entry.path().unwrap().display().to_string(),
                header.mode().unwrap(),
                header.mtime().unwrap(),
                content.len(),
            ));
        }
        assert_eq!(
            found,
            [
                ("equate".to_owned(), 0o755, 1_700_000_000, 4),
                ("man/man1/equate.1".to_owned(), 0o644, 1_700_000_000, 3)
            ]
        );
    }
}
