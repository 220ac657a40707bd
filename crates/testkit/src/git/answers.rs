//! A server that reads the head of one request per connection and leaves the rest to its user:
//! [`Proxy`](super::Proxy) and the fake [GitHub API](super::GithubApi). Below it, one that leaves
//! everything to its user: [`SocksProxy`](super::SocksProxy).

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const HEAD_BYTES_MAX: usize = 64 << 10;

pub(super) struct Request {
    pub(super) head: String,
    pub(super) rest: Vec<u8>,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub(super) struct Listening {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    pub(super) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let (ended, serve) = (Arc::clone(&ends), Arc::new(serve));
        let thread = std::thread::Builder::new()
            .name("answers-test".to_owned())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    if ended.load(Ordering::Acquire) {
                        return;
                    }
                    let serve = Arc::clone(&serve);
                    std::thread::spawn(move || serve(stream));
                }
            })?;
        Ok(Self {
            address,
            ends,
            thread: Some(thread),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // wake the accept loop
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

#[derive(Debug)]
pub(super) struct Answers {
    listening: Listening,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Answers {
    pub(super) fn start(answer: impl Fn(TcpStream, Request) + Send + Sync + 'static) -> io::Result<Self> {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heads);
        let listening = Listening::start(move |mut stream| {
            if let Some(request) = read(&mut stream) {
                let mut heads = noted.lock().unwrap_or_else(PoisonError::into_inner);
                heads.push(request.head.clone());
                drop(heads);
                answer(stream, request);
            }
        })?;
        Ok(Self { listening, heads })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listening.address())
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = String::from_utf8_lossy(&bytes).into_owned();
            return Some(Request { head, rest });
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 && bytes.len() < HEAD_BYTES_MAX => bytes.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

pub(super) fn say(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).ok();
    stream.shutdown(Shutdown::Both).ok();
}
