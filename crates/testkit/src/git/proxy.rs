//! Proxies with a name and a password: HTTP (requests and CONNECT), and SOCKS version 5.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::answers::{Answers, Listening, Request, say};
use super::{Error, HttpServer, SshServer};

#[derive(Debug, Clone)]
struct Upstream {
    authority: String,
    speaks_first: bool,
}

impl Upstream {
    fn http(server: &HttpServer) -> Self {
        Self {
            authority: server.authority(),
            speaks_first: false,
        }
    }

    fn ssh(server: &SshServer) -> Self {
        Self {
            authority: server.address().to_string(),
            speaks_first: true,
        }
    }

    /// The greeting of the target: it is sent in one write with the proxy's answer, as may happen on a
    /// network.
    fn first_words(&self, server: &mut TcpStream) -> io::Result<Vec<u8>> {
        if !self.speaks_first {
            return Ok(Vec::new());
        }
        let mut words = vec![0; 4096];
        let read = server.read(&mut words)?;
        words.truncate(read);
        Ok(words)
    }
}

/// A running proxy to one fixed server; dropping it stops it.
#[derive(Debug)]
pub struct Proxy(Answers);

impl Proxy {
    /// A proxy to this server with these credentials.
    pub fn start(server: &HttpServer, name: &str, password: &str) -> Result<Self, Error> {
        Self::before(Upstream::http(server), name, password)
    }

    /// A proxy to an SSH server.
    pub fn of_ssh(server: &SshServer, name: &str, password: &str) -> Result<Self, Error> {
        Self::before(Upstream::ssh(server), name, password)
    }

    /// A proxy to this `host:port`, where the client speaks first.
    pub fn to(authority: &str, name: &str, password: &str) -> Result<Self, Error> {
        let upstream = Upstream {
            authority: authority.to_owned(),
            speaks_first: false,
        };
        Self::before(upstream, name, password)
    }

    fn before(upstream: Upstream, name: &str, password: &str) -> Result<Self, Error> {
        let wanted = STANDARD.encode(format!("{name}:{password}"));
        let allowed = move |head: &str| {
            head.lines().any(|line| {
                line.split_once(": ").is_some_and(|(header, value)| {
                    header.eq_ignore_ascii_case("proxy-authorization")
                        && value.split_once(' ').is_some_and(|(scheme, given)| {
                            scheme.eq_ignore_ascii_case("basic") && given == wanted
                        })
                })
            })
        };
        let answers = Answers::start(move |mut client, request| {
            if !allowed(&request.head) {
                return say(&mut client, "407 Proxy Authentication Required", "");
            }
            let passed = match request.head.starts_with("CONNECT ") {
                true => connect(&client, &upstream),
                false => pass_on(&client, &upstream, &request),
            };
            if passed.is_err() {
                say(&mut client, "502 Bad Gateway", "");
            }
        });
        answers.map(Self).map_err(Error::Serve)
    }

    /// Its URL, without name and password.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.0.heads()
    }
}

fn pass_on(client: &TcpStream, upstream: &Upstream, request: &Request) -> io::Result<()> {
    let mut server = TcpStream::connect(&upstream.authority)?;
    server.write_all(request.head.as_bytes())?;
    server.write_all(&request.rest)?;
    both_ways(client, server)
}

fn connect(mut client: &TcpStream, upstream: &Upstream) -> io::Result<()> {
    let mut server = TcpStream::connect(&upstream.authority)?;
    let mut answer = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n".to_vec();
    answer.extend(upstream.first_words(&mut server)?);
    client.write_all(&answer)?;
    both_ways(client, server)
}

fn both_ways(client: &TcpStream, mut server: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        io::copy(&mut from_client, &mut to_server).ok();
        to_server.shutdown(Shutdown::Write).ok();
    });
    let mut to_client = client.try_clone()?;
    io::copy(&mut server, &mut to_client)?;
    to_client.shutdown(Shutdown::Both)
}

/// A running SOCKS 5 proxy (RFC 1928, 1929) to one fixed server; dropping it stops it.
#[derive(Debug)]
pub struct SocksProxy {
    listening: Listening,
    asked: Arc<Mutex<Vec<String>>>,
}

impl SocksProxy {
    /// A proxy to this server with these credentials.
    pub fn start(server: &HttpServer, name: &str, password: &str) -> Result<Self, Error> {
        Self::before(Upstream::http(server), name, password)
    }

    /// A proxy to an SSH server.
    pub fn of_ssh(server: &SshServer, name: &str, password: &str) -> Result<Self, Error> {
        Self::before(Upstream::ssh(server), name, password)
    }

    fn before(upstream: Upstream, name: &str, password: &str) -> Result<Self, Error> {
        let (name, password) = (name.to_owned(), password.to_owned());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let listening = Listening::start(move |client| {
            socks(&client, &upstream, &name, &password, &noted).ok();
        });
        let listening = listening.map_err(Error::Serve)?;
        Ok(Self { listening, asked })
    }

    /// Its URL, without name and password.
    pub fn url(&self) -> String {
        format!("socks5://{}", self.listening.address())
    }

    /// The requested targets, as `host:port`.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn socks(
    mut client: &TcpStream,
    upstream: &Upstream,
    name: &str,
    password: &str,
    asked: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let counted = |client: &mut &TcpStream| -> io::Result<Vec<u8>> {
        let mut length = [0];
        client.read_exact(&mut length)?;
        let mut bytes = vec![0; usize::from(length[0])];
        client.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let mut version = [0];
    client.read_exact(&mut version)?;
    if !counted(&mut client)?.contains(&2) {
        return client.write_all(&[5, 0xff]);
    }
    client.write_all(&[5, 2])?;
    client.read_exact(&mut version)?;
    let given = (counted(&mut client)?, counted(&mut client)?);
    if given != (name.as_bytes().to_vec(), password.as_bytes().to_vec()) {
        return client.write_all(&[1, 1]);
    }
    client.write_all(&[1, 0])?;
    let mut request = [0; 4];
    client.read_exact(&mut request)?;
    let host = match request[3] {
        1 => {
            let mut address = [0; 4];
            client.read_exact(&mut address)?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        _ => String::from_utf8_lossy(&counted(&mut client)?).into_owned(),
    };
    let mut port = [0; 2];
    client.read_exact(&mut port)?;
    let place = format!("{host}:{}", u16::from_be_bytes(port));
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    let Ok(mut server) = TcpStream::connect(&upstream.authority) else {
        return client.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    };
    let mut answer = vec![5, 0, 0, 1, 127, 0, 0, 1, 0, 0];
    answer.extend(upstream.first_words(&mut server)?);
    client.write_all(&answer)?;
    both_ways(client, server)
}
