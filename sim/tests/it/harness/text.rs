//! The text forms of durations, and of the values that a check expects.

/// Parses a duration to milliseconds: numbers with units in sequence (`300ms`, `1.5s`, `2m`,
/// `1h30m`), or a bare `0`.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let factor = match unit {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return Err(format!("`{text}` is no duration (write 300ms, 1.5s, 2m or 1h)")),
        };
        total += number.parse::<f64>().map_err(|_| format!("`{text}` is no duration"))? * factor;
        rest = tail;
    }
    if text.is_empty() { Err("a duration is missing".to_owned()) } else { Ok(total.round() as u64) }
}

/// Formats `ms` in seconds, without needless digits.
pub(crate) fn seconds(ms: i64) -> String {
    let text = format!("{:.3}", ms as f64 / 1_000.0);
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The actual value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// A word, or several joined by `+`; `none` for nothing.
    Word(String),
    /// A duration or an instant in milliseconds.
    Ms(i64),
    /// A count.
    Count(u64),
}

impl Found {
    /// The value as shown in a failure's report.
    pub(crate) fn show(&self) -> String {
        match self {
            Found::Word(word) => word.clone(),
            Found::Ms(ms) => seconds(*ms),
            Found::Count(count) => count.to_string(),
        }
    }
}

/// The expected value of a check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Want {
    /// Exactly this word.
    Word(String),
    /// A number in a range, both ends included.
    Between(i64, i64),
}

impl Want {
    /// Reads `running`, `4s`, `3`, `4s ± 100ms`, `> 4s`, `>= 4s`, `< 4s`, `<= 4s` or `4s..5s`.
    pub(crate) fn parse(words: &[&str]) -> Result<Want, String> {
        match words {
            [">", low] => Ok(Want::Between(number(low)? + 1, i64::MAX)),
            [">=", low] => Ok(Want::Between(number(low)?, i64::MAX)),
            ["<", high] => Ok(Want::Between(i64::MIN, number(high)? - 1)),
            ["<=", high] => Ok(Want::Between(i64::MIN, number(high)?)),
            [middle, "±" | "+-", spread] => {
                let (middle, spread) = (number(middle)?, number(spread)?);
                Ok(Want::Between(middle - spread, middle + spread))
            }
            [one] => match one.split_once("..") {
                Some((low, high)) => Ok(Want::Between(number(low)?, number(high)?)),
                None => Ok(number(one)
                    .map_or_else(|_| Want::Word((*one).to_owned()), |n| Want::Between(n, n))),
            },
            _ => Err(format!("cannot read the value `{}`", words.join(" "))),
        }
    }

    /// Whether `found` meets the expectation.
    pub(crate) fn holds(&self, found: &Found) -> bool {
        match (self, found) {
            (Want::Word(want), Found::Word(found)) => want == found,
            (Want::Between(low, high), Found::Ms(ms)) => (low..=high).contains(&ms),
            (Want::Between(low, high), Found::Count(count)) => {
                i64::try_from(*count).is_ok_and(|count| (low..=high).contains(&&count))
            }
            _ => false,
        }
    }
}

/// A count or a duration in milliseconds; either may be negative.
fn number(text: &str) -> Result<i64, String> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.parse::<u64>() {
        Ok(count) => count,
        Err(_) => duration(digits)?,
    };
    i64::try_from(value).map(|value| sign * value).map_err(|_| format!("`{text}` is too large"))
}
