//! Connects to the host, at one of its addresses or through a proxy.
//!
//! The proxy protocol is written here and not left to the HTTP client: an ssh host sends first, and that
//! client would swallow bytes behind the proxy's answer. The proxy resolves the host's name. Supported are
//! `CONNECT` of HTTP/1.1 and SOCKS version 5, both with optional passwords. A proxy that is reached over
//! TLS is refused.

use std::{io, net::IpAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use equate_egress::{ConnectError, Egress, Silence};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use zeroize::Zeroizing;

use crate::{
    kind::Kind,
    remote::{Endpoint, Proxy, ProxyProtocol},
    transport::Failure,
};

const CONNECT_MAX: Duration = Duration::from_secs(20);
const HEAD_BYTES_MAX: usize = 8 << 10;

const SOCKS: u8 = 5;
const PASSWORDS: u8 = 1;
const OPEN: u8 = 0;
const PASSWORD: u8 = 2;
const NEITHER: u8 = 0xff;

pub(super) async fn dial(
    egress: &Egress,
    endpoint: &Endpoint,
    proxy: Option<&Proxy>,
) -> Result<TcpStream, Failure> {
    let (host, port) = (endpoint.bare_host(), endpoint.ssh_port());
    let dialled = tokio::time::timeout(CONNECT_MAX, async {
        let Some(proxy) = proxy else {
            return egress.connect(host, port).await.map_err(not_connected);
        };
        if proxy.protocol() == ProxyProtocol::Https {
            let problem = "an ssh host is not reached through a proxy of scheme \"https\": give the proxy an http \
                           or socks5 address";
            return Err(Failure::new(Kind::UrlInvalid, problem));
        }
        let (at, its_port) = proxy.place();
        let no_proxy = |error: ConnectError| {
            let kind = Kind::Unreachable(Silence::Unconnected);
            Failure::new(kind, "the proxy cannot be reached").because(error)
        };
        let mut stream = egress.connect(at, its_port).await.map_err(no_proxy)?;
        match proxy.protocol() {
            ProxyProtocol::Socks5 => connect_by_socks5(&mut stream, proxy, host, port).await?,
            ProxyProtocol::Http | ProxyProtocol::Https => {
                connect_by_http(&mut stream, proxy, host, port).await?;
            }
        }
        Ok(stream)
    });
    dialled.await.map_err(|_| no_answer(Silence::Late))?
}

fn no_answer(silence: Silence) -> Failure {
    Failure::new(Kind::Unreachable(silence), silence.words())
}

fn not_connected(error: ConnectError) -> Failure {
    match error {
        ConnectError::Refused(..) => Failure::new(Kind::UrlInvalid, "the host may not be dialled"),
        ConnectError::Late(_)
        | ConnectError::Unresolved(..)
        | ConnectError::Unreachable(..)
        | ConnectError::NoHost => no_answer(Silence::of_connection(&error)),
    }
    .because(error)
}

fn broken(error: io::Error) -> Failure {
    Failure::new(Kind::RemoteFailure, "the proxy's answer is malformed").because(error)
}

fn wants_credentials() -> Failure {
    Failure::new(Kind::Authentication, "the proxy requires credentials")
}

async fn connect_by_http(
    stream: &mut TcpStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<(), Failure> {
    let place = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let mut asked = Zeroizing::new(format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n"));
    if let Some((name, password)) = proxy.credentials() {
        let both = Zeroizing::new([name.as_bytes(), b":", password].concat());
        let both = Zeroizing::new(STANDARD.encode(&*both));
        asked.push_str("Proxy-Authorization: Basic ");
        asked.push_str(&both);
        asked.push_str("\r\n");
    }
    asked.push_str("\r\n");
    stream.write_all(asked.as_bytes()).await.map_err(broken)?;

    // byte by byte: everything after the headers is the host's
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX {
            let problem = format!("the head of the proxy's answer is longer than {HEAD_BYTES_MAX} bytes");
            return Err(Failure::new(Kind::Limit, problem));
        }
        head.push(stream.read_u8().await.map_err(broken)?);
    }
    let status = std::str::from_utf8(&head).ok();
    let status = status.and_then(|head| head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.get(..3));
    match status {
        Some("200") => Ok(()),
        Some("407") => Err(wants_credentials()),
        Some(status) if status.bytes().all(|byte| byte.is_ascii_digit()) => {
            let problem = format!("the proxy cannot connect (HTTP {status})");
            Err(Failure::new(Kind::RemoteFailure, problem))
        }
        _ => Err(Failure::new(
            Kind::RemoteFailure,
            "the proxy does not support HTTP/1.1",
        )),
    }
}

async fn connect_by_socks5(
    stream: &mut TcpStream,
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<(), Failure> {
    let offered: &[u8] = match proxy.credentials() {
        Some(_) => &[SOCKS, 2, OPEN, PASSWORD],
        None => &[SOCKS, 1, OPEN],
    };
    stream.write_all(offered).await.map_err(broken)?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await.map_err(broken)?;
    match (chosen, proxy.credentials()) {
        ([SOCKS, OPEN], _) => {}
        ([SOCKS, PASSWORD], Some((name, password))) => let_in(stream, name, password).await?,
        ([SOCKS, NEITHER], _) => return Err(wants_credentials()),
        _ => {
            let problem = "the proxy does not support SOCKS version 5";
            return Err(Failure::new(Kind::RemoteFailure, problem));
        }
    }
    connect_by_socks(stream, host, port).await
}

async fn let_in(stream: &mut TcpStream, name: &str, password: &[u8]) -> Result<(), Failure> {
    let long = |_| {
        let problem = "a SOCKS proxy accepts usernames and passwords of up to 255 bytes";
        Failure::new(Kind::Authentication, problem)
    };
    let mut asked = Zeroizing::new(vec![PASSWORDS]);
    for part in [name.as_bytes(), password] {
        asked.push(u8::try_from(part.len()).map_err(long)?);
        asked.extend_from_slice(part);
    }
    stream.write_all(&asked).await.map_err(broken)?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    match answer {
        [_, 0] => Ok(()),
        _ => Err(wants_credentials()),
    }
}

async fn connect_by_socks(stream: &mut TcpStream, host: &str, port: u16) -> Result<(), Failure> {
    const CONNECT: u8 = 1;
    const ADDRESS_4: u8 = 1;
    const NAME: u8 = 3;
    const ADDRESS_6: u8 = 4;
    let mut asked = vec![SOCKS, CONNECT, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            asked.push(ADDRESS_4);
            asked.extend_from_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            asked.push(ADDRESS_6);
            asked.extend_from_slice(&address.octets());
        }
        Err(_) => {
            let long = |_| Failure::new(Kind::UrlInvalid, "the host's name is longer than 255 bytes");
            asked.extend_from_slice(&[NAME, u8::try_from(host.len()).map_err(long)?]);
            asked.extend_from_slice(host.as_bytes());
        }
    }
    asked.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&asked).await.map_err(broken)?;

    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    let [_, outcome, _, kind] = answer;
    if outcome != 0 {
        return Err(Failure::new(Kind::RemoteFailure, refusal(outcome)));
    }
    // skip the address that the proxy connects from
    let length = match kind {
        ADDRESS_4 => 4,
        ADDRESS_6 => 16,
        NAME => usize::from(stream.read_u8().await.map_err(broken)?),
        _ => {
            let problem = "the proxy's answer has an unknown address type";
            return Err(Failure::new(Kind::RemoteFailure, problem));
        }
    };
    let mut from = vec![0; length + 2];
    stream.read_exact(&mut from).await.map_err(broken)?;
    Ok(())
}

/// RFC 1928, section 6.
fn refusal(outcome: u8) -> String {
    let why = match outcome {
        2 => "its rules do not allow it",
        3 => "the network is unreachable",
        4 => "the host is unreachable",
        5 => "the connection is refused",
        6 => "the connection timed out",
        _ => "it reports a general failure",
    };
    format!("the proxy cannot connect: {why} (SOCKS {outcome})")
}
