//! What guard and keeper say to each other: one line for each order, and one at the end.

use std::io::{Error, ErrorKind, Read, Write};

use lockwatch_judge::time::Mono;

/// An order of the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The script begins.
    Start(Start),
    /// The script may run until then.
    Extend(Mono),
    /// The script and its process group get this signal.
    Signal(i32),
    /// All that came of the script is to be killed at once.
    Kill,
}

/// How a script is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// It may run until then.
    pub dead_by: Mono,
    /// The fencing token.
    pub token: u64,
    /// The holder's id, as in the lock.
    pub holder: String,
}

impl Start {
    /// What the script finds in its environment, as far as it differs from hold to hold.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("LOCKWATCH_HOLDER", self.holder.clone()),
            ("LOCKWATCH_TOKEN", self.token.to_string()),
            ("LOCKWATCH_DEADLINE_BOOT_MS", self.dead_by.ms().to_string()),
        ]
    }
}

impl Order {
    /// The line that says it.
    pub fn line(&self) -> String {
        match self {
            Order::Start(Start { dead_by, token, holder }) => {
                format!("start {} {token} {holder}\n", dead_by.ms())
            }
            Order::Extend(dead_by) => format!("extend {}\n", dead_by.ms()),
            Order::Signal(signal) => format!("signal {signal}\n"),
            Order::Kill => "kill\n".to_owned(),
        }
    }

    /// Reads the line, without its end.
    pub fn parse(line: &str) -> Option<Order> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("start", start) => {
                let mut words = start.splitn(3, ' ');
                let mut number = || words.next()?.parse().ok();
                let (dead_by, token) = (Mono::at(number()?), number()?);
                let holder = words.next()?.to_owned();
                Some(Order::Start(Start { dead_by, token, holder }))
            }
            ("extend", ms) => ms.parse().ok().map(|ms| Order::Extend(Mono::at(ms))),
            ("signal", signal) => signal.parse().ok().map(Order::Signal),
            ("kill", "") => Some(Order::Kill),
            _ => None,
        }
    }
}

/// The last word of a keeper: nothing of the script is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the script ended; `None`: it was killed.
    pub code: Option<u8>,
    /// When the last of its processes was gone.
    pub at: Mono,
}

impl Ended {
    /// Reads the line.
    pub fn parse(line: &str) -> Option<Ended> {
        let (code, at) = line.trim_end().strip_prefix("gone ")?.split_once(' ')?;
        let code = if code == "-" { None } else { Some(code.parse().ok()?) };
        Some(Ended { code, at: Mono::at(at.parse().ok()?) })
    }
}

/// Says the last word. A guard that is gone does not hear it.
pub fn report_end(mut guard: impl Write, ended: Ended) {
    let code = ended.code.map_or("-".to_owned(), |code| code.to_string());
    let _unheard = guard.write_all(format!("gone {code} {}\n", ended.at.ms()).as_bytes());
}

/// Puts lines together.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// The orders that can be read now.
    ///
    /// # Errors
    /// There will be no more, or one makes no sense: the guard is gone, or not itself.
    pub fn read(&mut self, mut guard: impl Read) -> Result<Vec<Order>, Error> {
        let mut chunk = [0; 256];
        loop {
            match guard.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.0.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let end = self.0.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.0.drain(..end).collect();
        let text = String::from_utf8(whole).map_err(|_| ErrorKind::InvalidData)?;
        let orders: Option<Vec<Order>> = text.lines().map(Order::parse).collect();
        orders.ok_or(ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given_however_they_are_cut() {
        let start = Start { dead_by: Mono::at(7), token: 12, holder: "2b1e-4:3".to_owned() };
        let all = [Order::Start(start), Order::Extend(Mono::MAX), Order::Signal(15), Order::Kill];
        let text: String = all.iter().map(Order::line).collect();
        let (mut guard, keeper) = UnixStream::pair().unwrap();
        keeper.set_nonblocking(true).unwrap();
        let (mut lines, mut read) = (Lines::default(), Vec::new());
        for byte in text.bytes() {
            guard.write_all(&[byte]).unwrap();
            read.extend(lines.read(&keeper).unwrap());
        }
        assert_eq!(read, all);
        guard.write_all(b"dance\n").unwrap();
        assert_eq!(lines.read(&keeper).unwrap_err().kind(), ErrorKind::InvalidData);
        drop(guard);
        assert_eq!(lines.read(&keeper).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_last_word_can_be_read() {
        for ended in
            [Ended { code: Some(7), at: Mono::at(12) }, Ended { code: None, at: Mono::at(0) }]
        {
            let mut line = Vec::new();
            report_end(&mut line, ended);
            assert_eq!(Ended::parse(std::str::from_utf8(&line).unwrap()), Some(ended));
        }
        assert_eq!(Ended::parse("gone"), None);
    }
}
