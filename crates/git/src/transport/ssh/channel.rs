//! The channel of a command, as the blocking reader and writer that gix needs.
//!
//! Received data waits in the library's queue, which stops reading the socket when it is full. Memory is
//! thus bounded by that queue, the limit below, and the window. Waits end at the session's deadline, or
//! when reader and writer are dropped: [`Line`] closes the socket, and every pending read or write ends.

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
    host::{CloseReason, Host, Open},
    message::classify,
};
use crate::transport::{Shared, http::Runtime};

const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// More waits until we read.
const AHEAD_BYTES_MAX: usize = 1 << 20;
/// Several packets, so that several are in flight.
const WRITE_BYTES_MAX: usize = 256 << 10;

const STDERR: u32 = 1;

/// A socket that is closed on drop, even while a task waits for it.
#[derive(Debug)]
pub(super) struct Line(pub(super) TcpStream);

impl Line {
    pub(super) fn cut(&self) {
        // Fails only if it is closed already.
        self.0.shutdown(Shutdown::Both).ok();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.cut();
    }
}

pub(super) struct Command {
    runtime: Arc<Runtime>,
    shared: Shared,
    outgoing: ChannelWriteHalf<Msg>,
    /// Both sides take turns, so the lock is never waited for.
    incoming: Mutex<Incoming>,
    close_reason: CloseReason,
    _handle: Handle<Host>,
    line: Arc<Line>,
}

struct Incoming {
    half: ChannelReadHalf,
    received: Received,
}

struct Received {
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    message: Vec<u8>,
    status: Option<u32>,
    began: bool,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It may send more.
    Open,
    /// The answer is complete; error messages may follow.
    Answered,
    /// It closed the channel.
    Closed,
    /// It stopped without closing.
    Broken,
    /// It does not run the command.
    Refused,
}

impl Received {
    fn new() -> Self {
        Self {
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            message: Vec::new(),
            status: None,
            began: false,
            end: End::Open,
        }
    }

    fn take(&mut self, message: Option<ChannelMsg>) {
        match message {
            // Ignored: empty data, and data after the end, which no limit would count.
            Some(ChannelMsg::Data { data }) if data.is_empty() || self.end != End::Open => {}
            Some(ChannelMsg::Data { data }) => {
                self.ahead_bytes += data.len();
                self.ahead.push_back(data);
            }
            Some(ChannelMsg::ExtendedData { data, ext: STDERR }) => {
                let room = MESSAGE_BYTES_MAX.saturating_sub(self.message.len());
                self.message.extend_from_slice(&data[..data.len().min(room)]);
            }
            Some(ChannelMsg::ExitStatus { exit_status }) => self.status = Some(exit_status),
            // The number a shell gives it.
            Some(ChannelMsg::ExitSignal { .. }) => self.status = Some(128),
            Some(ChannelMsg::Eof) => self.end = End::Answered,
            Some(ChannelMsg::Failure) => self.end = End::Refused,
            Some(ChannelMsg::Close) => self.end = End::Closed,
            None if self.end == End::Open => self.end = End::Broken,
            None if self.end == End::Answered => self.end = End::Closed,
            // The library handles windows; the rest is not for a client.
            Some(_) | None => {}
        }
    }

    fn is_over(&self) -> bool {
        match self.end {
            End::Open => false,
            // Not all hosts close a channel they have ended.
            End::Answered => self.status.is_some(),
            End::Closed | End::Broken | End::Refused => true,
        }
    }
}

impl Command {
    pub(super) fn pipes(runtime: Arc<Runtime>, shared: Shared, open: Open) -> (Reader, Writer) {
        let Open {
            handle,
            channel,
            close_reason,
            line,
        } = open;
        let (half, outgoing) = channel.split();
        let incoming = Incoming {
            half,
            received: Received::new(),
        };
        let command = Arc::new(Self {
            runtime,
            shared,
            outgoing,
            incoming: Mutex::new(incoming),
            close_reason,
            _handle: handle,
            line,
        });
        (Reader(Arc::clone(&command)), Writer(command))
    }

    fn incoming(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<T>(&self, what: impl Future<Output = T>) -> io::Result<T> {
        self.runtime.wait(&self.shared, what)
    }

    fn end(&self, incoming: &mut Incoming) -> io::Result<()> {
        // Error messages and the status follow the answer.
        while !incoming.received.is_over() {
            let message = self.wait(incoming.half.wait())?;
            incoming.received.take(message);
        }
        if self.shared.is_over() {
            return Err(self.shared.timed_out());
        }
        let received = &incoming.received;
        let clean = matches!(received.end, End::Answered | End::Closed) && received.status.unwrap_or(0) == 0;
        if received.began && clean && received.message.is_empty() {
            return Ok(());
        }
        let otherwise = match received.end {
            End::Broken => self
                .close_reason
                .message()
                .unwrap_or_else(|| "the connection broke".to_owned()),
            End::Refused => "it refuses to run commands".to_owned(),
            End::Open | End::Answered | End::Closed => match received.status {
                Some(status) if status != 0 => format!("its git ended with status {status}"),
                _ => "it closed the connection".to_owned(),
            },
        };
        Err(self.shared.fail(classify(&received.message, otherwise)))
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.incoming();
        loop {
            if let Some(front) = incoming.received.ahead.front_mut() {
                let read = front.len().min(buffer.len());
                let piece = front.split_to(read);
                buffer[..read].copy_from_slice(&piece);
                if front.is_empty() {
                    incoming.received.ahead.pop_front();
                }
                incoming.received.ahead_bytes -= read;
                incoming.received.began = true;
                self.shared.count(read)?;
                return Ok(read);
            }
            if incoming.received.end != End::Open {
                return self.end(&mut incoming).map(|()| 0);
            }
            let message = self.wait(incoming.half.wait())?;
            incoming.received.take(message);
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        let mut incoming = self.incoming();
        let sending = async {
            let mut sent = pin!(self.outgoing.data_bytes(Bytes::copy_from_slice(bytes)));
            loop {
                // Read while writing, because the remote may have to send before it reads on. It may still
                // close after its last message.
                let listens = incoming.received.ahead_bytes < AHEAD_BYTES_MAX;
                tokio::select! {
                    biased;
                    sent = &mut sent => return sent.is_ok(),
                    message = incoming.half.wait(), if listens => incoming.received.take(message),
                }
                if matches!(incoming.received.end, End::Closed | End::Broken | End::Refused) {
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

pub(super) struct Reader(Arc<Command>);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match buffer.is_empty() {
            true => Ok(0),
            false => self.0.read(buffer),
        }
    }
}

pub(super) struct Writer(Arc<Command>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.is_empty() {
            true => Ok(0),
            false => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use russh::ChannelMsg;

    use super::{End, Received};

    #[test]
    fn data_after_the_end_is_dropped() {
        let data = |bytes: &'static [u8]| ChannelMsg::Data {
            data: Bytes::from_static(bytes),
        };
        #[track_caller]
        fn check(messages: Vec<ChannelMsg>, kept: usize, pieces: usize, end: End) {
            let mut received = Received::new();
            for message in messages {
                received.take(Some(message));
            }
            assert_eq!(
                (received.ahead_bytes, received.ahead.len(), received.end),
                (kept, pieces, end)
            );
        }
        check(vec![data(b"one"), data(b"two")], 6, 2, End::Open);
        // an empty packet is not the end
        check(vec![data(b""), data(b"one"), data(b"")], 3, 1, End::Open);
        // data after the end is ignored
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
