//! A server that behaves like an honest Redis until it lies, for tests of how the program handles
//! false replies.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::honest;
use super::wire;

/// A connected client.
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    asked: VecDeque<Vec<Vec<u8>>>,
}

/// The client has disconnected.
pub(crate) struct Gone;

/// A server on a port of its own that treats each client as a function prescribes; it lives as long
/// as the test binary.
pub(crate) struct Impostor {
    pub(crate) port: u16,
    clients: Arc<AtomicUsize>,
}

impl Impostor {
    pub(crate) fn start(plot: fn(&mut Client) -> Result<(), Gone>) -> Impostor {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&clients);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    // Replies are written one by one.
                    stream.set_nodelay(true).unwrap();
                    let mut client =
                        Client { stream, received: Vec::new(), asked: VecDeque::new() };
                    let _gone = plot(&mut client);
                });
            }
        });
        Impostor { port, clients }
    }

    /// Number of connections so far.
    pub(crate) fn clients(&self) -> usize {
        self.clients.load(Ordering::SeqCst)
    }
}

impl Client {
    pub(crate) fn say(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.stream.write_all(bytes).map_err(|_| Gone)
    }

    /// Waits for the next command and takes it.
    pub(crate) fn next(&mut self) -> Result<Vec<Vec<u8>>, Gone> {
        loop {
            while let Some((words, length)) = wire::command(&self.received) {
                self.received.drain(..length);
                self.asked.push_back(words);
            }
            if let Some(words) = self.asked.pop_front() {
                return Ok(words);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(count) if count > 0 => self.received.extend_from_slice(&bytes[..count]),
                _ => return Err(Gone),
            }
        }
    }

    /// Waits for the next command without taking it.
    pub(crate) fn peek(&mut self) -> Result<Vec<Vec<u8>>, Gone> {
        let words = self.next()?;
        self.asked.push_front(words.clone());
        Ok(words)
    }

    /// Sends this instead of the reply to the next command.
    pub(crate) fn instead(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.next()?;
        self.say(bytes)
    }

    /// Answers one command honestly, and returns it.
    pub(crate) fn answer(&mut self) -> Result<Vec<Vec<u8>>, Gone> {
        let words = self.next()?;
        let mut bytes = Vec::new();
        wire::write(&honest::answer(&words), &mut bytes);
        self.say(&bytes)?;
        Ok(words)
    }

    /// Answers the whole greeting honestly.
    pub(crate) fn greet(&mut self) -> Result<(), Gone> {
        while self.answer()? != [&b"PEXPIRETIME"[..], b"lockwatch"] {}
        Ok(())
    }

    /// Answers some commands honestly.
    pub(crate) fn answer_some(&mut self, count: usize) -> Result<(), Gone> {
        for _ in 0..count {
            self.answer()?;
        }
        Ok(())
    }

    /// Answers everything honestly, except for the replies that `lie` replaces.
    pub(crate) fn answer_but(
        &mut self,
        lie: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>>,
    ) -> Result<(), Gone> {
        loop {
            let words = self.next()?;
            let mut bytes = Vec::new();
            match lie(&words) {
                Some(lie) => bytes = lie,
                None => wire::write(&honest::answer(&words), &mut bytes),
            }
            self.say(&bytes)?;
        }
    }

    /// Sends the same bytes without end.
    pub(crate) fn flood(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let block = bytes.repeat(65_536 / bytes.len());
        loop {
            self.say(&block)?;
        }
    }

    /// Sends nothing until the client disconnects.
    pub(crate) fn hang(&mut self) -> Result<(), Gone> {
        loop {
            self.next()?;
        }
    }

    /// Sends these bytes one by one.
    pub(crate) fn drip(&mut self, bytes: &[u8], pause: Duration) -> Result<(), Gone> {
        for byte in bytes {
            self.say(&[*byte])?;
            thread::sleep(pause);
        }
        Ok(())
    }
}
