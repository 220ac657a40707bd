//! Answers of hostile git servers, in version 2 of the protocol.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::servers::{Connection, Server};

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const RESULT: &str = "application/x-git-upload-pack-result";
const TIP: &str = "1111111111111111111111111111111111111111";
const FLUSH: &[u8] = b"0000";
/// The most bytes of a pack in one line of the protocol.
const BAND_BYTES: usize = 65_000;
const COMMIT: u8 = 1;
const TREE: u8 = 2;
const BLOB: u8 = 3;
/// A delta whose base is at a distance in the pack.
const OFFSET_DELTA: u8 = 6;

/// The behaviour of the server after its honest first answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    /// Refs without end.
    EndlessRefs,
    /// A blob of ten GiB, not compressed.
    HugePack,
    /// Small deltas with results of many GiB.
    DeltaBomb,
    /// A large file of ignore patterns, in 150,000 directories that are two objects.
    SharedIgnoreFile,
    /// 66 files of 15 MiB, which are one object.
    LargeFiles,
    /// Announces a pack, then sends a byte per second.
    DripPack,
}

pub(super) async fn start(trick: Trick) -> io::Result<Server> {
    let bomb = match trick {
        Trick::DeltaBomb => Bomb {
            tip: TIP.to_owned(),
            pack: delta_bomb(64, 1_000)?,
        },
        Trick::SharedIgnoreFile => shared_ignore_file(1 << 20, [1_000, 150])?,
        Trick::LargeFiles => large_files(15 << 20, 66)?,
        Trick::EndlessRefs | Trick::HugePack | Trick::DripPack => Bomb {
            tip: TIP.to_owned(),
            pack: Vec::new(),
        },
    };
    Server::start(move |connection| serve(connection, trick, bomb.clone())).await
}

/// A commit, and the pack that is sent for it.
#[derive(Clone)]
struct Bomb {
    tip: String,
    pack: Vec<u8>,
}

async fn serve(mut connection: Connection, trick: Trick, bomb: Bomb) -> io::Result<()> {
    while let Some(head) = connection.head().await? {
        if head.path.contains("info/refs") {
            let mut body = line(b"# service=git-upload-pack\n");
            body.extend(FLUSH);
            for capability in [
                "version 2\n",
                "agent=git/2\n",
                "ls-refs=unborn\n",
                "fetch=shallow wait-for-done filter\n",
                "object-format=sha1\n",
            ] {
                body.extend(line(capability.as_bytes()));
            }
            body.extend(FLUSH);
            connection.answer(200, ADVERTISEMENT, &body).await?;
            continue;
        }
        let asks_for_refs = head.body.windows(7).any(|part| part == b"ls-refs");
        if asks_for_refs && trick != Trick::EndlessRefs {
            let tip = &bomb.tip;
            let mut body = line(format!("{tip} HEAD symref-target:refs/heads/main\n").as_bytes());
            body.extend(line(format!("{tip} refs/heads/main\n").as_bytes()));
            body.extend(FLUSH);
            connection.answer(200, RESULT, &body).await?;
            continue;
        }
        connection.begin(RESULT).await?;
        return trap(&mut connection, trick, &bomb.pack).await;
    }
    Ok(())
}

async fn trap(connection: &mut Connection, trick: Trick, bomb: &[u8]) -> io::Result<()> {
    match trick {
        Trick::EndlessRefs => {
            let refs: Vec<u8> = (0..1000)
                .flat_map(|number| line(format!("{TIP} refs/heads/b{number}\n").as_bytes()))
                .collect();
            connection.endless(&refs).await
        }
        Trick::HugePack => {
            let mut pack = pack_head(1);
            pack.extend(object_head(BLOB, 10 << 30));
            // zlib without compression: blocks of zeros
            pack.extend([0x78, 0x01]);
            connection.send(&line(b"packfile\n")).await?;
            connection.send(&band(&pack)).await?;
            let length = u16::MAX >> 1;
            let mut block = vec![0];
            block.extend(length.to_le_bytes());
            block.extend((!length).to_le_bytes());
            block.resize(block.len() + usize::from(length), 0);
            connection.endless(&band(&block)).await
        }
        Trick::DeltaBomb | Trick::SharedIgnoreFile | Trick::LargeFiles => {
            connection.send(&line(b"packfile\n")).await?;
            for part in bomb.chunks(BAND_BYTES) {
                connection.send(&band(part)).await?;
            }
            connection.send(FLUSH).await
        }
        Trick::DripPack => {
            connection.send(&line(b"packfile\n")).await?;
            // a line of 65,000 bytes, whose bytes come one by one
            connection
                .send(format!("{:04x}\u{1}", BAND_BYTES + 5).as_bytes())
                .await?;
            connection.send(&pack_head(1)).await?;
            connection.drip(0).await
        }
    }
}

/// A line of the protocol.
fn line(data: &[u8]) -> Vec<u8> {
    let mut line = format!("{:04x}", data.len() + 4).into_bytes();
    line.extend_from_slice(data);
    line
}

/// A part of a pack.
fn band(data: &[u8]) -> Vec<u8> {
    let mut part = vec![1];
    part.extend_from_slice(data);
    line(&part)
}

fn pack_head(objects: u32) -> Vec<u8> {
    let mut head = b"PACK\0\0\0\x02".to_vec();
    head.extend(objects.to_be_bytes());
    head
}

fn object_head(kind: u8, size: u64) -> Vec<u8> {
    let low = |bits: u64, mask: u64| u8::try_from(bits & mask).unwrap_or_default();
    let mut head = vec![(kind << 4) | low(size, 0x0f)];
    let mut rest = size >> 4;
    while rest > 0 {
        if let Some(last) = head.last_mut() {
            *last |= 0x80;
        }
        head.push(low(rest, 0x7f));
        rest >>= 7;
    }
    head
}

/// The size of a delta's base or result.
fn delta_size(mut size: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(size & 0x7f).unwrap_or_default();
        size >>= 7;
        if size == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// The distance to the base of a delta.
fn distance(mut distance: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(distance & 0x7f).unwrap_or_default();
        bytes.push(if bytes.is_empty() { low } else { low | 0x80 });
        distance >>= 7;
        if distance == 0 {
            break;
        }
        distance -= 1;
    }
    bytes.reverse();
    bytes
}

/// A pack with a base of 16 MiB and deltas that copy it many times.
fn delta_bomb(deltas: u32, copies: u64) -> io::Result<Vec<u8>> {
    const BASE: u64 = 0xff_ffff;
    let mut pack = pack_head(deltas + 1);
    let base_at = pack.len();
    pack.extend(object_head(BLOB, BASE));
    pack.extend(zlib(&vec![0; usize::try_from(BASE).unwrap_or_default()])?);
    for number in 0..deltas {
        let mut delta = delta_size(BASE);
        delta.extend(delta_size(BASE * copies + 4));
        // an own beginning, so that no two results are equal
        delta.push(4);
        delta.extend(number.to_be_bytes());
        for _ in 0..copies {
            // from offset 0, with three bytes of size
            delta.extend([0xf0, 0xff, 0xff, 0xff]);
        }
        let at = pack.len();
        pack.extend(object_head(OFFSET_DELTA, delta.len() as u64));
        pack.extend(distance(at - base_at));
        pack.extend(zlib(&delta)?);
    }
    let checksum = sha1(&pack)?;
    pack.extend(checksum);
    Ok(pack)
}

/// Objects that become a pack.
#[derive(Default)]
struct Objects(Vec<(u8, Vec<u8>)>);

impl Objects {
    /// Adds an object; returns its id.
    fn add(&mut self, kind: u8, name: &str, data: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut named = format!("{name} {}\0", data.len()).into_bytes();
        named.extend(&data);
        self.0.push((kind, data));
        sha1(&named)
    }

    /// Adds a tree of many names for one object.
    fn tree(&mut self, mode: &str, names: impl Iterator<Item = String>, id: &[u8]) -> io::Result<Vec<u8>> {
        let entries = names.map(|name| [format!("{mode} {name}\0").as_bytes(), id].concat());
        let entries = entries.collect::<Vec<_>>().concat();
        self.add(TREE, "tree", entries)
    }

    /// The pack with a commit of this tree.
    fn commit(mut self, tree: &[u8]) -> io::Result<Bomb> {
        let author = "a <a@example.com> 0 +0000";
        let commit = format!("tree {}\nauthor {author}\ncommitter {author}\n\na\n", hex(tree));
        let tip = hex(&self.add(COMMIT, "commit", commit.into_bytes())?);
        let mut pack = pack_head(u32::try_from(self.0.len()).unwrap_or_default());
        for (kind, data) in self.0 {
            pack.extend(object_head(kind, data.len() as u64));
            pack.extend(zlib(&data)?);
        }
        let checksum = sha1(&pack)?;
        pack.extend(checksum);
        Ok(Bomb { tip, pack })
    }
}

fn shared_ignore_file(bytes: usize, widths: [usize; 2]) -> io::Result<Bomb> {
    let mut objects = Objects::default();
    let blob = objects.add(BLOB, "blob", vec![b'#'; bytes])?;
    let mut tree = objects.tree("100644", [".sourceignore".to_owned()].into_iter(), &blob)?;
    for width in widths {
        let names = (0..width).map(|number| format!("{number:04}"));
        tree = objects.tree("40000", names, &tree)?;
    }
    objects.commit(&tree)
}

fn large_files(bytes: usize, count: usize) -> io::Result<Bomb> {
    let mut objects = Objects::default();
    let blob = objects.add(BLOB, "blob", vec![0; bytes])?;
    let names = (0..count).map(|number| format!("{number:04}"));
    let tree = objects.tree("100644", names, &blob)?;
    objects.commit(&tree)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn zlib(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut zip = ZlibEncoder::new(Vec::new(), Compression::fast());
    zip.write_all(bytes)?;
    zip.finish()
}

/// By the program of coreutils: no library of this crate has it.
fn sha1(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut child = Command::new("sha1sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(bytes)?;
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let digits: Vec<u8> = text
        .chars()
        .map_while(|digit| digit.to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    Ok(digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bombs_are_packs_for_git() {
        // without the factors: git itself must read them
        check_pack(&delta_bomb(2, 1).unwrap());
        let shared = shared_ignore_file(1 << 20, [1_000, 150]).unwrap();
        assert!(shared.pack.len() < 64 << 10, "{}", shared.pack.len());
        check_pack(&shared.pack);
        let large = large_files(1 << 20, 66).unwrap();
        assert!(large.pack.len() < 64 << 10, "{}", large.pack.len());
        check_pack(&large.pack);
    }

    fn check_pack(pack: &[u8]) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("bomb.pack");
        std::fs::write(&at, pack).unwrap();
        let output = Command::new("git")
            .args(["index-pack", "--strict"])
            .arg(&at)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
