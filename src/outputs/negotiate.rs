//! Content negotiation for the exposition: a strict reading of `Accept` and `Accept-Encoding`.

/// The text formats of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The classic text format 0.0.4.
    Classic,
}

impl Format {
    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// None.
    Identity,
    /// gzip.
    Gzip,
}

/// The format for an `Accept` header: OpenMetrics if it is named with at least the weight of the
/// classic format, which is the default.
pub fn format(accept: &str) -> Format {
    let ranges: Vec<Item<'_>> = items(accept).collect();
    let open = best(&ranges, |range| {
        range.is("application/openmetrics-text") && range.version_is("1.0.0")
    });
    let classic = best(&ranges, |range| range.is("text/plain") && range.version_is("0.0.4"))
        .or_else(|| best(&ranges, |range| range.is("text/*")))
        .or_else(|| best(&ranges, |range| range.is("*/*")));
    match (open.unwrap_or(0), classic.unwrap_or(0)) {
        (open, classic) if open > 0 && open >= classic => Format::OpenMetrics,
        _ => Format::Classic,
    }
}

/// The coding for an `Accept-Encoding` header: gzip if it is allowed with at least the weight of no
/// coding, which is the default.
pub fn coding(accept_encoding: &str) -> Coding {
    let codings: Vec<Item<'_>> = items(accept_encoding).collect();
    let any = best(&codings, |coding| coding.is("*"));
    let gzip = best(&codings, |coding| coding.is("gzip") || coding.is("x-gzip")).or(any);
    let identity = best(&codings, |coding| coding.is("identity"));
    match gzip.unwrap_or(0) {
        0 => Coding::Identity,
        gzip if gzip < identity.unwrap_or(0) => Coding::Identity,
        _ => Coding::Gzip,
    }
}

/// One element of a header's list.
struct Item<'a> {
    name: &'a str,
    /// `version`, if given.
    version: Option<&'a str>,
    /// Its `q` weight in thousandths.
    weight: u16,
}

impl Item<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn version_is(&self, version: &str) -> bool {
        self.version.is_none_or(|given| given == version)
    }
}

/// The highest weight among the items that match.
fn best(items: &[Item<'_>], matches: impl Fn(&Item<'_>) -> bool) -> Option<u16> {
    items.iter().filter(|item| matches(item)).map(|item| item.weight).max()
}

/// The elements of a list, without those whose weight is invalid.
fn items(header: &str) -> impl Iterator<Item = Item<'_>> {
    split(header, ',').filter_map(|element| {
        let mut parts = split(element, ';');
        let mut item = Item { name: parts.next()?.trim(), version: None, weight: 1000 };
        for part in parts {
            let Some((name, value)) = part.split_once('=') else { continue };
            match name.trim() {
                "q" | "Q" => item.weight = weight(value.trim())?,
                name if name.eq_ignore_ascii_case("version") => {
                    item.version = Some(value.trim().trim_matches('"'))
                }
                _ => {}
            }
        }
        Some(item)
    })
}

/// `0`, `0.5`, `1.000` in thousandths.
fn weight(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// Splits at `separator` outside quoted strings.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |character: char| {
        let splits = character == separator && !quoted;
        if escaped {
            escaped = false;
        } else if character == '"' {
            quoted = !quoted;
        } else {
            escaped = quoted && character == '\\';
        }
        splits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             \
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let cases = [
            (prometheus, Format::OpenMetrics),
            ("", Format::Classic),
            ("*/*", Format::Classic),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Format::Classic),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; Version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text; version=\"1.0.0\"", Format::OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Format::Classic),
            ("application/openmetrics-text;version=2.0.0, */*;q=0.1", Format::Classic),
            ("application/openmetrics-text;q=0, */*", Format::Classic),
            ("application/openmetrics-text;q=0.000", Format::Classic),
            ("application/openmetrics-text;q=0.3, text/plain;q=0.5", Format::Classic),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.5", Format::OpenMetrics),
            ("text/plain, application/openmetrics-text;q=0.9", Format::Classic),
            (
                "application/openmetrics-text;q=0.5, */*;q=0.2, text/plain;q=0.1",
                Format::OpenMetrics,
            ),
            (
                "x/y;a=\"application/openmetrics-text, application/openmetrics-text\"",
                Format::Classic,
            ),
            (
                "application/openmetrics-text;q=2, application/openmetrics-text;q=-1",
                Format::Classic,
            ),
            ("application/openmetrics-textual", Format::Classic),
            (";;;,,,=;q=;\"", Format::Classic),
        ];
        for (accept, expected) in cases {
            assert_eq!(format(accept), expected, "{accept}");
        }
    }

    #[test]
    fn codings() {
        let cases = [
            ("", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("GZIP", Coding::Gzip),
            ("x-gzip", Coding::Gzip),
            ("gzip, deflate, br", Coding::Gzip),
            ("gzip;q=0", Coding::Identity),
            ("gzip;q=0.0, *", Coding::Identity),
            ("*", Coding::Gzip),
            ("*;q=0", Coding::Identity),
            ("deflate, br", Coding::Identity),
            ("identity;q=0.5, gzip;q=0.4", Coding::Identity),
            ("identity;q=0.5, gzip;q=0.5", Coding::Gzip),
            ("gzip ; q=0.001", Coding::Gzip),
            ("gzip;q=nonsense", Coding::Identity),
            ("gzipped", Coding::Identity),
        ];
        for (accept, expected) in cases {
            assert_eq!(coding(accept), expected, "{accept}");
        }
    }
}
