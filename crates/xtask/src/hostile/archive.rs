//! Archives of attackers. Gzip members may follow each other, so that a repeated part is compressed once.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::bench::hostile::{entry, header};

const MIB: usize = 1 << 20;
/// GNU's type of an entry whose data is the name of the next.
const LONG_NAME: u8 = b'L';
/// The type of an entry whose data are records of PAX.
const PAX: u8 = b'x';

/// An archive of these files.
pub(crate) fn of(files: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    let mut tar = Vec::new();
    for (name, text) in files {
        entry(&mut tar, name, b'0', text.as_bytes(), "")?;
    }
    tar.extend([0; 1024]);
    zip(&tar)
}

/// An archive whose first name has this many MiB.
pub(super) fn long_name(mib: usize) -> io::Result<Vec<u8>> {
    let mut all = zip(&header("././@LongLink", LONG_NAME, (mib * MIB) as u64, ""))?;
    all.extend(zip(&vec![b'a'; MIB])?.repeat(mib));
    end(all)
}

/// An archive whose first PAX record has this many MiB.
pub(super) fn long_record(mib: usize) -> io::Result<Vec<u8>> {
    let size = mib * MIB;
    let mut all = zip(&header("pax", PAX, size as u64, ""))?;
    let begin = format!("{size} path=");
    let mut first = vec![b'a'; MIB];
    first[..begin.len()].copy_from_slice(begin.as_bytes());
    all.extend(zip(&first)?);
    all.extend(zip(&vec![b'a'; MIB])?.repeat(mib - 1));
    end(all)
}

/// An archive of a file of this many MiB, and a thousandth of it as an archive.
pub(super) fn bomb(mib: usize) -> io::Result<Vec<u8>> {
    let mut all = zip(&header("bomb.yaml", b'0', (mib * MIB) as u64, ""))?;
    all.extend(zip(&vec![0; MIB])?.repeat(mib));
    end(all)
}

/// An archive of files of this many MiB each.
pub(super) fn large_files(count: usize, mib: usize) -> io::Result<Vec<u8>> {
    let content = zip(&vec![0; MIB])?.repeat(mib);
    let mut all = Vec::new();
    for number in 0..count {
        let size = (mib * MIB) as u64;
        all.extend(zip(&header(&format!("f{number}"), b'0', size, ""))?);
        all.extend(&content);
    }
    end(all)
}

/// An archive of a thousand names, each this many times.
pub(super) fn entries(times: usize) -> io::Result<Vec<u8>> {
    let mut tar = Vec::new();
    for number in 0..1000 {
        tar.extend(header(&format!("f{number}"), b'0', 0, ""));
    }
    end(zip(&tar)?.repeat(times))
}

/// An archive that links to files outside of it, and writes through a link.
pub(super) fn links() -> io::Result<Vec<u8>> {
    let mut tar = Vec::new();
    let kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
                         configMapGenerator:\n- name: stolen\n  files: [passwd, out/hostname]\n";
    entry(&mut tar, "kustomization.yaml", b'0', kustomization.as_bytes(), "")?;
    entry(&mut tar, "passwd", b'2', b"", "/etc/passwd")?;
    entry(&mut tar, "out", b'2', b"", "../../../../../../../../etc")?;
    entry(&mut tar, "out/equate-was-here", b'0', b"x", "")?;
    entry(&mut tar, "hard", b'1', b"", "/etc/hostname")?;
    tar.extend([0; 1024]);
    zip(&tar)
}

fn end(mut all: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut tar = Vec::new();
    entry(&mut tar, "a.yaml", b'0', b"a: 1\n", "")?;
    tar.extend([0; 1024]);
    all.extend(zip(&tar)?);
    Ok(all)
}

fn zip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    zip.write_all(bytes)?;
    zip.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::MultiGzDecoder;
    use std::io::Read as _;

    #[test]
    fn archives_are_as_large_as_they_say() {
        let check = |archive: io::Result<Vec<u8>>, kind: u8, bytes: usize| {
            let archive = archive.unwrap();
            assert!(archive.len() < 64 << 10, "{}", archive.len());
            let mut tar = Vec::new();
            MultiGzDecoder::new(&archive[..]).read_to_end(&mut tar).unwrap();
            assert_eq!((tar[156], tar.len()), (kind, bytes));
            assert_eq!(tar.len() % 512, 0);
        };
        // the header before, and a file and two blocks after
        check(long_name(2), LONG_NAME, 2 * MIB + 5 * 512);
        check(long_record(2), PAX, 2 * MIB + 5 * 512);
        check(bomb(2), b'0', 2 * MIB + 5 * 512);
        check(entries(2), b'0', 2000 * 512 + 4 * 512);
    }
}
