//! The channel a command runs in, as the blocking reader and writer that gix wants.
//!
//! What the other side sends waits in the library's queue, which holds it back from the socket when it is
//! full; so memory is bounded by that queue, the ceiling below, and the window. Nothing waits past the
//! deadline of the conversation, and everything ends when reader and writer are dropped: [`Line`] closes the
//! socket under whoever still reads or writes it.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use russh::{
    ChannelMsg, ChannelReadHalf, ChannelWriteHalf,
    client::{Handle, Msg},
};

use super::{
    host::{Host, Open, Parting},
    words::classify,
};
use crate::transport::{Shared, http::Runtime};

/// What is kept of what the other side says beside its answer: enough for its last words.
const WORDS_BYTES_MAX: usize = 16 << 10;
/// What may come while we are still asking. Past that it waits until we listen.
const AHEAD_BYTES_MAX: usize = 1 << 20;
/// One write: more than a packet, so that several are on their way.
const WRITE_BYTES_MAX: usize = 256 << 10;

/// The other side's messages for standard error.
const STDERR: u32 = 1;

/// A socket that is closed when this goes, also under a task that waits for it.
#[derive(Debug)]
pub(super) struct Line(pub(super) TcpStream);

impl Line {
    pub(super) fn cut(&self) {
        // Fails only where it is closed already.
        self.0.shutdown(Shutdown::Both).ok();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.cut();
    }
}

/// A command that runs.
pub(super) struct Command {
    runtime: Arc<Runtime>,
    shared: Shared,
    outgoing: ChannelWriteHalf<Msg>,
    /// Both sides of one conversation, which speak in turn: it is never waited for.
    incoming: Mutex<Incoming>,
    parting: Parting,
    _handle: Handle<Host>,
    line: Arc<Line>,
}

struct Incoming {
    half: ChannelReadHalf,
    heard: Heard,
}

/// What came, and is not read yet.
struct Heard {
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    words: Vec<u8>,
    status: Option<u32>,
    began: bool,
    end: End,
}

/// How far the other side has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It may send more.
    Open,
    /// The answer is whole; last words may follow.
    Answered,
    /// It said that nothing more comes.
    Closed,
    /// It stopped without saying so.
    Broken,
    /// It does not run the command.
    Refused,
}

impl Heard {
    fn new() -> Self {
        Self {
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            words: Vec::new(),
            status: None,
            began: false,
            end: End::Open,
        }
    }

    fn take(&mut self, message: Option<ChannelMsg>) {
        match message {
            // None of it is an answer: what is empty, and what follows the end, which nobody would count.
            Some(ChannelMsg::Data { data }) if data.is_empty() || self.end != End::Open => {}
            Some(ChannelMsg::Data { data }) => {
                self.ahead_bytes += data.len();
                self.ahead.push_back(data);
            }
            Some(ChannelMsg::ExtendedData { data, ext: STDERR }) => {
                let room = WORDS_BYTES_MAX.saturating_sub(self.words.len());
                self.words.extend_from_slice(&data[..data.len().min(room)]);
            }
            Some(ChannelMsg::ExitStatus { exit_status }) => self.status = Some(exit_status),
            // The number a shell gives it.
            Some(ChannelMsg::ExitSignal { .. }) => self.status = Some(128),
            Some(ChannelMsg::Eof) => self.end = End::Answered,
            Some(ChannelMsg::Failure) => self.end = End::Refused,
            Some(ChannelMsg::Close) => self.end = End::Closed,
            None if self.end == End::Open => self.end = End::Broken,
            None if self.end == End::Answered => self.end = End::Closed,
            // What it says of windows is the library's matter; the rest is not for a client.
            Some(_) | None => {}
        }
    }

    fn is_over(&self) -> bool {
        match self.end {
            End::Open => false,
            // Not all hosts close what they have ended.
            End::Answered => self.status.is_some(),
            End::Closed | End::Broken | End::Refused => true,
        }
    }
}

impl Command {
    /// Of a channel in which the command was asked for.
    pub(super) fn pipes(runtime: Arc<Runtime>, shared: Shared, open: Open) -> (Reader, Writer) {
        let Open {
            handle,
            channel,
            parting,
            line,
        } = open;
        let (half, outgoing) = channel.split();
        let incoming = Incoming {
            half,
            heard: Heard::new(),
        };
        let command = Arc::new(Self {
            runtime,
            shared,
            outgoing,
            incoming: Mutex::new(incoming),
            parting,
            _handle: handle,
            line,
        });
        (Reader(Arc::clone(&command)), Writer(command))
    }

    fn incoming(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most until the deadline.
    fn wait<T>(&self, what: impl Future<Output = T>) -> io::Result<T> {
        self.runtime.wait(&self.shared, what)
    }

    /// Why it is over, where that is no end a conversation has.
    fn end(&self, incoming: &mut Incoming) -> io::Result<()> {
        // Its last words and its status follow the answer.
        while !incoming.heard.is_over() {
            let message = self.wait(incoming.half.wait())?;
            incoming.heard.take(message);
        }
        if self.shared.is_over() {
            return Err(self.shared.timed_out());
        }
        let heard = &incoming.heard;
        let clean = matches!(heard.end, End::Answered | End::Closed) && heard.status.unwrap_or(0) == 0;
        if heard.began && clean && heard.words.is_empty() {
            return Ok(());
        }
        let otherwise = match heard.end {
            End::Broken => self
                .parting
                .words()
                .unwrap_or_else(|| "the connection broke".to_owned()),
            End::Refused => "it refuses to run commands".to_owned(),
            End::Open | End::Answered | End::Closed => match heard.status {
                Some(status) if status != 0 => format!("its git ended with status {status}"),
                _ => "it closed the connection".to_owned(),
            },
        };
        Err(self.shared.fail(classify(&heard.words, otherwise)))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.incoming();
        loop {
            if let Some(front) = incoming.heard.ahead.front_mut() {
                let read = front.len().min(buffer.len());
                let piece = front.split_to(read);
                buffer[..read].copy_from_slice(&piece);
                if front.is_empty() {
                    incoming.heard.ahead.pop_front();
                }
                incoming.heard.ahead_bytes -= read;
                incoming.heard.began = true;
                self.shared.count(read)?;
                return Ok(read);
            }
            if incoming.heard.end != End::Open {
                return self.end(&mut incoming).map(|()| 0);
            }
            let message = self.wait(incoming.half.wait())?;
            incoming.heard.take(message);
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        let mut incoming = self.incoming();
        let sending = async {
            let mut sent = pin!(self.outgoing.data_bytes(Bytes::copy_from_slice(bytes)));
            loop {
                // Whoever only talks keeps the other side from hearing: it may have to say something first.
                // After its last word it may still hang up.
                let listens = incoming.heard.ahead_bytes < AHEAD_BYTES_MAX;
                tokio::select! {
                    biased;
                    sent = &mut sent => return sent.is_ok(),
                    message = incoming.half.wait(), if listens => incoming.heard.take(message),
                }
                if matches!(incoming.heard.end, End::Closed | End::Broken | End::Refused) {
                    return false;
                }
            }
        };
        match self.wait(sending)? {
            true => Ok(bytes.len()),
            false => {
                self.end(&mut incoming)?;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        self.line.cut();
    }
}

/// What the command writes. Ends with an error where the command failed.
pub(super) struct Reader(Arc<Command>);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match buffer.is_empty() {
            true => Ok(0),
            false => self.0.read(buffer),
        }
    }
}

/// What the command reads.
pub(super) struct Writer(Arc<Command>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.is_empty() {
            true => Ok(0),
            false => self.0.write(bytes),
        }
    }

    /// Every write is sent at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use russh::ChannelMsg;

    use super::{End, Heard};

    #[test]
    fn what_is_kept() {
        let data = |bytes: &'static [u8]| ChannelMsg::Data {
            data: Bytes::from_static(bytes),
        };
        #[track_caller]
        fn check(messages: Vec<ChannelMsg>, kept: usize, pieces: usize, end: End) {
            let mut heard = Heard::new();
            for message in messages {
                heard.take(Some(message));
            }
            assert_eq!(
                (heard.ahead_bytes, heard.ahead.len(), heard.end),
                (kept, pieces, end)
            );
        }
        check(vec![data(b"one"), data(b"two")], 6, 2, End::Open);
        // a packet without bytes is not the end
        check(vec![data(b""), data(b"one"), data(b"")], 3, 1, End::Open);
        // what follows the end is nobody's
        check(
            vec![data(b"one"), ChannelMsg::Eof, data(b"more")],
            3,
            1,
            End::Answered,
        );
        check(vec![ChannelMsg::Failure, data(b"more")], 0, 0, End::Refused);
        check(vec![ChannelMsg::Close, data(b"more")], 0, 0, End::Closed);
    }
}
