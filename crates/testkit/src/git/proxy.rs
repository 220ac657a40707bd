//! A proxy of HTTP that asks for a name and a password.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::answers::{Answers, Request, say};
use super::{Error, HttpServer};

/// A running proxy; ends when it is dropped. Whatever host is asked for, it is one server's.
#[derive(Debug)]
pub struct Proxy(Answers);

impl Proxy {
    /// Before that server, for whoever knows a name and a password.
    pub fn start(server: &HttpServer, name: &str, password: &str) -> Result<Self, Error> {
        let (upstream, wanted) = (server.authority(), STANDARD.encode(format!("{name}:{password}")));
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
            if pass_on(&client, &upstream, &request).is_err() {
                say(&mut client, "502 Bad Gateway", "");
            }
        });
        answers.map(Self).map_err(Error::Serve)
    }

    /// Its URL, without name and password.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.0.heads()
    }
}

/// Both ways, until both have ended.
fn pass_on(client: &TcpStream, upstream: &str, request: &Request) -> io::Result<()> {
    let mut server = TcpStream::connect(upstream)?;
    server.write_all(request.head.as_bytes())?;
    server.write_all(&request.rest)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || io::copy(&mut from_client, &mut to_server).ok());
    let mut to_client = client.try_clone()?;
    io::copy(&mut server, &mut to_client)?;
    to_client.shutdown(Shutdown::Both)
}
