//! The destination and format of log lines.

mod journal;
mod sink;

use std::sync::OnceLock;
use std::time::Duration;
use std::{fmt, io};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, time::FormatTime, time::SystemTime};
use tracing_subscriber::registry::LookupSpan;

use self::journal::Lines;
use self::sink::Sink;

/// Maximum time at exit to write the last lines.
const DRAIN: Duration = Duration::from_secs(1);

/// One sink for the process, as there is one standard error.
static SINK: OnceLock<Sink> = OnceLock::new();

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct LogOptions {
    /// Log only messages of this severity or above
    #[arg(long = "log.level", value_name = "LEVEL", value_parser = log_level(), default_value = "info")]
    pub level: Level,
    /// How log lines look
    #[arg(long = "log.format", value_name = "FORMAT", value_enum, default_value = "logfmt")]
    pub format: LogFormat,
}

fn log_level() -> impl TypedValueParser<Value = Level> {
    const LEVELS: [(&str, &str); 5] = [
        ("error", "Only what needs mending"),
        ("warn", "Also what may need it"),
        ("info", "Also what happened"),
        ("debug", "Also why"),
        ("trace", "Everything"),
    ];
    let levels = LEVELS.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(levels).try_map(|name| name.parse::<Level>())
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// `key=value` pairs.
    Logfmt,
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

/// Flushes the last lines when dropped, at the end of the agent.
#[derive(Debug)]
#[must_use]
pub struct Logging(Sink);

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.flush(DRAIN);
    }
}

/// Writes the lines that wait, so that what is said next comes after them.
pub fn flush() {
    if let Some(sink) = SINK.get() {
        sink.flush(DRAIN);
    }
}

/// How many log lines were lost so far, because standard error could not be written, or not fast
/// enough.
pub fn lines_lost() -> u64 {
    SINK.get().map_or(0, Sink::lost)
}

/// Writes log lines to standard error until the returned value is dropped. Logging never blocks on
/// it.
///
/// # Errors
/// The writer thread cannot be started.
pub fn start(options: LogOptions) -> io::Result<Logging> {
    let started = Sink::start(io::stderr(), tell_loss)?;
    let sink = SINK.get_or_init(|| started);
    let builder = tracing_subscriber::fmt()
        .with_max_level(options.level)
        .with_writer(Lines {
            sink: sink.clone(),
            has_priorities: journal::is_journal(io::stderr()),
        })
        // Internal errors would be written to standard error, too.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false);
    // A second start, in a test, has no effect.
    let _started = match options.format {
        LogFormat::Logfmt => builder.event_format(Logfmt).try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init(),
        LogFormat::Text => builder.try_init(),
    };
    Ok(Logging(sink.clone()))
}

fn tell_loss(lines: u64) {
    tracing::warn!(
        lines,
        "log lines were lost: standard error could not be written, or not fast enough"
    );
}

/// `ts=… level=… msg=… key=value`, the format of the Prometheus projects.
struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "ts=")?;
        SystemTime.format_time(&mut writer)?;
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        write!(writer, " level={level}")?;
        let mut pairs = Pairs { writer: &mut writer, result: Ok(()) };
        event.record(&mut pairs);
        pairs.result?;
        writeln!(writer)
    }
}

struct Pairs<'a, 'w> {
    writer: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl Pairs<'_, '_> {
    fn pair(&mut self, field: &Field, value: &str) {
        let name = if field.name() == "message" { "msg" } else { field.name() };
        if self.result.is_ok() {
            self.result = if is_plain(value) {
                write!(self.writer, " {name}={value}")
            } else {
                write!(self.writer, " {name}={value:?}")
            };
        }
    }
}

impl Visit for Pairs<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.pair(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.pair(field, &format!("{value:?}"));
    }
}

fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_is_quoted() {
        assert!(is_plain("outbound:lock"));
        for value in ["", "two words", "a=b", "a\"b", "a\nb", "ä"] {
            assert!(!is_plain(value), "{value}");
        }
    }
}
