//! A small HTTP client that sends exactly what it is given.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

/// A request that can still be changed.
pub struct Request {
    port: u16,
    method: String,
    path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

/// The response to a request.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }
}

impl Request {
    pub fn new(port: u16, method: &str, path: &str) -> Self {
        Self {
            port,
            method: method.to_owned(),
            path: path.to_owned(),
            host: Some(format!("127.0.0.1:{port}")),
            headers: Vec::new(),
            body: None,
        }
    }

    pub fn host(mut self, host: Option<&str>) -> Self {
        self.host = host.map(str::to_owned);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn bearer(self, key: &str) -> Self {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    pub fn body(mut self, body: &str) -> Self {
        self.body = Some(body.to_owned());
        self.header("Content-Type", "application/json")
    }

    fn write(&self) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if let Some(host) = &self.host {
            let _ = write!(text, "Host: {host}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let body = self.body.clone().unwrap_or_default();
        if self.body.is_some() || self.method != "GET" {
            let _ = write!(text, "Content-Length: {}\r\n", body.len());
        }
        text.push_str("\r\n");
        text.push_str(&body);
        // The server may refuse before it has read everything.
        let _ = stream.write_all(text.as_bytes());
        BufReader::new(stream)
    }

    pub fn send(self) -> HttpResponse {
        let mut reader = self.header("Connection", "close").write();
        let (status, headers) = head(&mut reader);
        let mut body = Vec::new();
        if is_chunked(&headers) {
            while let Some(chunk) = chunk(&mut reader) {
                body.extend(chunk);
            }
        } else {
            let _ = reader.read_to_end(&mut body);
        }
        HttpResponse {
            status,
            headers,
            body,
        }
    }

    /// Sends the request, and returns only the status: the body may never end.
    pub fn status(self) -> u16 {
        head(&mut self.write()).0
    }

    /// Sends the request; the response must be an event stream.
    pub fn listen(self) -> Events {
        let mut reader = self.write();
        let (status, headers) = head(&mut reader);
        assert_eq!(status, 200, "{headers:?}");
        assert!(is_chunked(&headers));
        Events {
            reader,
            rest: String::new(),
        }
    }
}

fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}"));
    let status = status.parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return (status, headers);
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
}

fn is_chunked(headers: &[(String, String)]) -> bool {
    headers
        .iter()
        .any(|(name, value)| name == "transfer-encoding" && value == "chunked")
}

fn chunk(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let size = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut bytes = vec![0; size + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(size);
    (size > 0).then_some(bytes)
}

/// One event of a stream.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: String,
    pub id: Option<u64>,
    /// The id as it was sent.
    pub place: Option<String>,
    /// The channel of the shared stream to which it belongs.
    pub channel: Option<u64>,
    pub data: Value,
}

/// An open event stream.
pub struct Events {
    reader: BufReader<TcpStream>,
    rest: String,
}

impl Events {
    /// Returns the next event; `None` when the stream has ended or nothing arrived in time.
    pub fn next(&mut self) -> Option<Event> {
        let until = Instant::now() + super::PATIENCE;
        // An idle server sends comments now and then; they are not events.
        while Instant::now() < until {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (parsed(event), rest.to_owned());
                self.rest = rest;
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let bytes = chunk(&mut self.reader)?;
            self.rest.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        None
    }

    /// Returns the next event of this name.
    pub fn next_of(&mut self, name: &str) -> Event {
        loop {
            let event = self.next();
            let event = event.unwrap_or_else(|| panic!("the stream ended before {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}

/// Parses an event; returns `None` for a comment.
fn parsed(text: &str) -> Option<Event> {
    let field = |name: &str| {
        let prefix = format!("{name}: ");
        text.lines().find_map(|line| line.strip_prefix(&prefix))
    };
    Some(Event {
        name: field("event")?.to_owned(),
        id: field("id").and_then(|id| id.parse().ok()),
        place: field("id").map(str::to_owned),
        channel: field("channel").and_then(|channel| channel.parse().ok()),
        data: serde_json::from_str(field("data")?).unwrap(),
    })
}
