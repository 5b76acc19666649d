//! A network connection that can be cut: a local port that forwards everything to another port until it is cut.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The poll interval of a connection that is cut or idle.
const LOOK: Duration = Duration::from_millis(20);

/// A forwarder to a local port. While it is cut, nothing arrives and neither side notices, as when a cable is pulled;
/// data sent meanwhile arrives after it is restored, as with TCP retransmission.
#[derive(Debug)]
pub struct TcpForwarder {
    port: u16,
    is_cut: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl TcpForwarder {
    /// Creates a forwarder to a port.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0");
        let listener = listener.unwrap_or_else(|error| panic!("there is no free port: {error}"));
        let own = listener.local_addr().map_or(0, |address| address.port());
        let wire = Self {
            port: own,
            is_cut: Arc::default(),
            is_over: Arc::default(),
        };
        let (is_cut, is_over) = (Arc::clone(&wire.is_cut), Arc::clone(&wire.is_over));
        thread::spawn(move || {
            for near in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(("127.0.0.1", port))) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    if let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) {
                        let (is_cut, is_over) = (Arc::clone(&is_cut), Arc::clone(&is_over));
                        thread::spawn(move || pass(from, to, &is_cut, &is_over));
                    }
                }
            }
        });
        wire
    }

    /// Returns the port of the forwarder.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Stops forwarding.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Resumes forwarding.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for TcpForwarder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for the next connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool, is_over: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    let _ = from.set_read_timeout(Some(LOOK));
    let _ = to.set_nodelay(true);
    while !is_over.load(Ordering::SeqCst) {
        if is_cut.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                // Data that was read at the moment of the cut waits until the connection is restored.
                while is_cut.load(Ordering::SeqCst) && !is_over.load(Ordering::SeqCst) {
                    thread::sleep(LOOK);
                }
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => break,
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
