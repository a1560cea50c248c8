//! Replies of a Redis as from one whose clock is ahead.

/// Rewrites complete lines of replies as from a server whose clock is ahead by `ahead_ms`.
///
/// `TIME` returns its seconds as text of ten digits, `PEXPIRETIME` an integer of thirteen digits.
/// No other value that the lab's workers write looks like that.
pub(super) fn stepped(lines: &[u8], ahead_ms: i64) -> Vec<u8> {
    lines
        .split_inclusive(|byte| *byte == b'\n')
        .flat_map(|line| stepped_line(line, ahead_ms))
        .collect()
}

fn stepped_line(line: &[u8], ahead_ms: i64) -> Vec<u8> {
    let step = |digits: &[u8], ahead: i64| {
        let number: Option<i64> =
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.map(|number| number.saturating_add(ahead))
    };
    let stepped = match line.strip_suffix(b"\r\n") {
        Some([b':', digits @ ..]) if digits.len() == 13 => {
            step(digits, ahead_ms).map(|ms| format!(":{ms}\r\n"))
        }
        Some(digits) if digits.len() == 10 && digits.iter().all(u8::is_ascii_digit) => {
            step(digits, ahead_ms / 1000).map(|seconds| format!("{seconds}\r\n"))
        }
        _ => None,
    };
    stepped.map_or_else(|| line.to_vec(), String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::stepped;

    #[test]
    fn time_and_deadlines_step_and_nothing_else_does() {
        let replies =
            b"*2\r\n$10\r\n1763740800\r\n$6\r\n123456\r\n:1763740830123\r\n:-2\r\n$13\r\n\
                1763740800123\r\n:7\r\n";
        let expected =
            b"*2\r\n$10\r\n1763740920\r\n$6\r\n123456\r\n:1763740950123\r\n:-2\r\n$13\r\n\
                1763740800123\r\n:7\r\n";
        assert_eq!(stepped(replies, 120_000), expected);
        assert_eq!(stepped(replies, 0), replies);
    }
}
