//! A strict parser of the classic text format: any scraper can read what it accepts.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The labels of one series.
pub(crate) type Labels = BTreeMap<String, String>;

/// What a line says besides its number, which pages repeat.
#[derive(Debug)]
enum Known {
    Help { family: String },
    Sample { name: String, labels: Arc<Labels>, bucket: Option<Bucket> },
}

/// A bucket of a histogram: its other labels, and its bound.
type Bucket = (Arc<Labels>, f64);

thread_local! {
    /// Lines that this thread has checked already. Tests look at many pages, and are compiled
    /// without optimisation: to check each line of each page took most of their time.
    static KNOWN: RefCell<HashMap<String, Arc<Known>>> = RefCell::default();
}

/// The verdicts by their rank.
const RANKS: [&str; 8] =
    ["stopped", "running", "pending", "unknown", "unwanted", "stalled", "down", "split"];

/// Bounds and values of a histogram.
type Buckets = Vec<(f64, f64)>;

/// One scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exposition {
    series: BTreeMap<String, BTreeMap<Arc<Labels>, f64>>,
    /// By the name of the series and the other labels: bounds and values.
    buckets: BTreeMap<(String, Arc<Labels>), Buckets>,
    kinds: HashMap<String, String>,
    text: String,
}

impl Exposition {
    /// Parses an exposition.
    ///
    /// # Errors
    ///
    /// The first line that violates the format, and how. Control characters and values that are not
    /// finite count as violations too, since this program never writes them.
    pub(crate) fn parse(text: &str) -> Result<Exposition, String> {
        let mut page = Exposition { text: text.to_owned(), ..Exposition::default() };
        let body = text.strip_suffix('\n').ok_or("the last line does not end")?;
        let mut family = String::new();
        for line in body.split('\n') {
            page.take_line(line, &mut family).map_err(|why| format!("{why}: {line:?}"))?;
        }
        page.check_histograms()?;
        Ok(page)
    }

    /// All series with this name whose labels include these.
    pub(crate) fn series<'a>(
        &'a self,
        name: &str,
        labels: &[(&str, &str)],
    ) -> BTreeMap<&'a Labels, f64> {
        let fits = |own: &Labels| labels.iter().all(|label| has(own, *label));
        let all = self.series.get(name).into_iter().flatten();
        all.filter(|(own, _)| fits(own)).map(|(own, value)| (&**own, *value)).collect()
    }

    /// The value of the series with this name whose labels include these; `None` if there is none.
    /// Panics if there are several.
    #[track_caller]
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.only(name, labels).map(|(_, value)| value)
    }

    /// Like `get` for one task, without the common prefix.
    #[track_caller]
    pub(crate) fn of(&self, task: &str, name: &str) -> Option<f64> {
        self.get(&format!("lockwatch_{name}"), &[("task", task)])
    }

    /// How long the task was wanted, down or in an outage, all in all.
    #[track_caller]
    pub(crate) fn time(&self, task: &str, of: &str) -> Option<f64> {
        self.get("lockwatch_task_time_seconds_total", &[("task", task), ("of", of)])
    }

    /// The value of a label of the only series with this name of this task.
    #[track_caller]
    pub(crate) fn label(&self, task: &str, name: &str, label: &str) -> Option<String> {
        let (labels, _) = self.only(&format!("lockwatch_{name}"), &[("task", task)])?;
        labels.get(label).cloned()
    }

    #[track_caller]
    fn only(&self, name: &str, labels: &[(&str, &str)]) -> Option<(&Labels, f64)> {
        let found = self.series(name, labels);
        assert!(found.len() <= 1, "more than one {name} with {labels:?}\n{}", self.text);
        found.into_iter().next()
    }

    /// The verdict on a task.
    #[track_caller]
    pub(crate) fn verdict(&self, task: &str) -> &str {
        let states = self.series("lockwatch_task_state_rank", &[("task", task)]);
        let present: Vec<(&Labels, f64)> = states.into_iter().collect();
        let [(labels, rank)] = present.as_slice() else {
            panic!("{task} has not exactly one verdict:\n{}", self.text)
        };
        assert_eq!(RANKS.get(*rank as usize), Some(&labels["state"].as_str()), "{}", self.text);
        labels["state"].as_str()
    }

    /// Number of holds of a task that ended for this reason.
    #[track_caller]
    pub(crate) fn ends(&self, task: &str, reason: &str) -> f64 {
        self.get("lockwatch_lock_ends_total", &[("task", task), ("reason", reason)])
            .expect("it is always there")
    }

    /// All series, by name and labels.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &Labels)> {
        self.series
            .iter()
            .flat_map(|(name, all)| all.keys().map(move |labels| (name.as_str(), &**labels)))
    }

    /// Number of series with this task, without those that only a task in trouble has.
    pub(crate) fn count_of_task(&self, task: &str) -> usize {
        self.series
            .values()
            .flat_map(BTreeMap::keys)
            .filter(|labels| has(labels, ("task", task)) && !labels.contains_key("problem"))
            .count()
    }

    /// The first counter that is smaller than in `before`.
    pub(crate) fn fallen_since(&self, before: &Exposition) -> Option<String> {
        let only_grows = |name: &str| {
            let of = |suffix: &str| {
                name.strip_suffix(suffix).is_some_and(|family| self.kind(family) == "histogram")
            };
            self.kind(name) == "counter" || of("_sum") || of("_count") || of("_bucket")
        };
        let fallen = |name: &String, labels: &Labels, value: f64| {
            let old = *before.series.get(name)?.get(labels)?;
            (value < old).then(|| format!("{name}{labels:?} fell from {old} to {value}"))
        };
        let growing = self.series.iter().filter(|(name, _)| only_grows(name));
        growing
            .flat_map(|(name, all)| all.iter().map(move |(labels, value)| (name, labels, *value)))
            .find_map(|(name, labels, value)| fallen(name, labels, value))
    }

    /// The text as scraped.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn kind(&self, family: &str) -> &str {
        self.kinds.get(family).map_or("", String::as_str)
    }

    fn take_line(&mut self, line: &str, family: &mut String) -> Result<(), String> {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            return self.take_type(kind, family);
        }
        let is_help = line.starts_with("# HELP ");
        let (what, value) = match line.rsplit_once(' ') {
            Some((what, value)) if !is_help => (what, Some(number(value))),
            _ => (line, None),
        };
        let known = match KNOWN.with_borrow(|known| known.get(what).cloned()) {
            Some(known) => known,
            None => {
                let known = Arc::new(if is_help { help(line)? } else { sample(what)? });
                KNOWN.with_borrow_mut(|all| all.insert(what.to_owned(), Arc::clone(&known)));
                known
            }
        };
        match &*known {
            Known::Help { family } if self.kinds.contains_key(family) => {
                Err("a family comes twice".to_owned())
            }
            Known::Help { .. } => Ok(()),
            Known::Sample { name, labels, bucket } => {
                let value = value.ok_or("no blank before the value")??;
                self.take_sample(family, name, labels, value)?;
                if let Some((rest, bound)) = bucket {
                    let histogram = (name.clone(), Arc::clone(rest));
                    self.buckets.entry(histogram).or_default().push((*bound, value));
                }
                Ok(())
            }
        }
    }

    fn take_type(&mut self, kind: &str, family: &mut String) -> Result<(), String> {
        let (name, kind) = kind.split_once(' ').ok_or("TYPE without a kind")?;
        if !["counter", "gauge", "histogram"].contains(&kind) {
            return Err("an unknown kind".to_owned());
        }
        if !is_name(name) {
            return Err("no valid name".to_owned());
        }
        if (kind == "counter") != name.ends_with("_total") {
            return Err("a counter's name must end with _total, and no other".to_owned());
        }
        name.clone_into(family);
        let twice = self.kinds.insert(name.to_owned(), kind.to_owned()).is_some();
        if twice { Err("a family comes twice".to_owned()) } else { Ok(()) }
    }

    fn take_sample(
        &mut self,
        family: &str,
        name: &str,
        labels: &Arc<Labels>,
        value: f64,
    ) -> Result<(), String> {
        let of_family = match self.kind(family) {
            "histogram" => ["_bucket", "_sum", "_count"]
                .iter()
                .any(|suffix| name.strip_suffix(suffix) == Some(family)),
            _ => name == family,
        };
        if !of_family {
            return Err(format!("a sample that does not belong to {family}"));
        }
        // A lock without a TTL.
        if !value.is_finite() && name != "lockwatch_lock_ttl_seconds" {
            return Err("a value that is not finite".to_owned());
        }
        match self.series.entry(name.to_owned()).or_default().insert(Arc::clone(labels), value) {
            Some(_) => Err("a series comes twice".to_owned()),
            None => Ok(()),
        }
    }

    fn check_histograms(&self) -> Result<(), String> {
        for ((name, labels), buckets) in &self.buckets {
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            let mut buckets = buckets.clone();
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            let counts = self.series.get(&format!("{family}_count"));
            let count = counts.and_then(|all| all.get(labels)).copied();
            let grows = buckets.is_sorted_by(|a, b| a.1 <= b.1);
            if !grows || buckets.last().copied() != count.map(|count| (f64::INFINITY, count)) {
                return Err(format!(
                    "the buckets of {family}{labels:?} are {buckets:?}, its count {count:?}"
                ));
            }
        }
        Ok(())
    }
}

fn has(labels: &Labels, (name, value): (&str, &str)) -> bool {
    labels.get(name).is_some_and(|own| own == value)
}

fn plain(line: &str) -> Result<&str, String> {
    if line.chars().any(char::is_control) {
        Err("a control character".to_owned())
    } else {
        Ok(line)
    }
}

/// `# HELP name text`.
fn help(line: &str) -> Result<Known, String> {
    let help = plain(line)?.strip_prefix("# HELP ").ok_or("no HELP")?;
    let (family, _) = help.split_once(' ').ok_or("HELP without a text")?;
    Ok(Known::Help { family: family.to_owned() })
}

/// `name{label="value",…}`.
fn sample(text: &str) -> Result<Known, String> {
    let end = plain(text)?.find('{').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if !is_name(name) {
        return Err("no valid name".to_owned());
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    if !rest.is_empty() {
        return Err("no blank before the value".to_owned());
    }
    let bucket = if name.ends_with("_bucket") {
        let mut rest = labels.clone();
        let bound = number(&rest.remove("le").ok_or("a bucket without le")?)?;
        Some((Arc::new(rest), bound))
    } else {
        None
    };
    Ok(Known::Sample { name: name.to_owned(), labels: Arc::new(labels), bucket })
}

/// Parses labels up to and including the closing brace; returns them and the rest.
fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a quoted value")?;
        if !is_name(name) || name.contains(':') {
            return Err(format!("{name:?} is no name of a label"));
        }
        let (value, after) = label_value(after)?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err("a label comes twice".to_owned());
        }
        if let Some(after) = after.strip_prefix('}') {
            return Ok((labels, after));
        }
        rest = after.strip_prefix(',').ok_or("no comma between labels")?;
    }
}

/// Parses a value up to and including its closing quote; returns it and the rest.
fn label_value(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut rest = text.char_indices();
    while let Some((at, letter)) = rest.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match rest.next() {
                Some((_, '\\')) => '\\',
                Some((_, '"')) => '"',
                Some((_, 'n')) => '\n',
                _ => return Err("an unknown escape".to_owned()),
            }),
            plain => value.push(plain),
        }
    }
    Err("a value that does not end".to_owned())
}

/// A decimal number, or `+Inf`.
fn number(text: &str) -> Result<f64, String> {
    let plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if text != "+Inf" && !text.bytes().all(plain) {
        return Err(format!("{text:?} is no number"));
    }
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn is_name(name: &str) -> bool {
    let starts =
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == ':');
    starts && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':')
}

#[test]
fn pages_that_break_a_rule_are_refused() {
    let page = Exposition::parse(
        "# HELP a b\n# TYPE a gauge\na{x=\"\\\\ \\\" \\n\",b=\"}\"} 1\na 2.5\na{x=\"1\"} 1e3\n",
    )
    .unwrap();
    assert_eq!(page.get("a", &[("x", "\\ \" \n"), ("b", "}")]), Some(1.0));
    assert_eq!(page.get("a", &[("x", "1")]), Some(1000.0));
    assert_eq!(page.series("a", &[]).len(), 3);
    let histogram =
        "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 9\na_count 2\n";
    assert_eq!(Exposition::parse(histogram).unwrap().get("a_count", &[]), Some(2.0));
    for bad in [
        "a 1\n",
        "# TYPE a gauge\na 1",
        "# TYPE a gauge\na 1\na 1\n",
        "# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n",
        "# TYPE a gauge\na{x=\"1\"y=\"2\"} 1\n",
        "# TYPE a gauge\na{x=\"\\t\"} 1\n",
        "# TYPE a gauge\na{x=\"\t\"} 1\n",
        "# TYPE a gauge\na{x=\"1} 1\n",
        "# TYPE a gauge\na one\n",
        "# TYPE a gauge\na infinity\n",
        "# TYPE a gauge\na +Inf\n",
        "# TYPE a gauge\na NaN\n",
        "# TYPE a gauge\nb 1\n",
        "# TYPE a gauge\nab 1\n",
        "# TYPE a summary\na 1\n",
        "# TYPE a counter\na 1\n",
        "# TYPE a_total gauge\na_total 1\n",
        "# TYPE a gauge\n# TYPE a gauge\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\n",
        "# TYPE a histogram\na 1\n",
        "# TYPE a histogram\na_bucket{le=\"+Inf\"} 2\na_count 1\n",
        "# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_count 1\n",
    ] {
        assert!(Exposition::parse(bad).is_err(), "{bad}");
    }
}
