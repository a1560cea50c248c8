//! A partial PromQL parser: which series an expression reads, and through which functions. promtool
//! checks the grammar.

/// One series that an expression reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) metric: String,
    /// The labels that its matchers name.
    pub(super) labels: Vec<String>,
    /// The text in its brackets.
    pub(super) window: Option<String>,
    /// The calls around it, outermost first.
    pub(super) calls: Vec<Call>,
}

/// A function or an aggregation, with the labels that it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) by: Vec<String>,
}

const AGGREGATIONS: [&str; 8] = ["max", "min", "sum", "count", "avg", "topk", "bottomk", "group"];
const WORDS: [&str; 5] = ["and", "or", "unless", "bool", "Inf"];

impl Selector {
    /// The innermost aggregation, which decides which agent counts.
    pub(super) fn aggregation(&self) -> Option<&Call> {
        self.calls.iter().rfind(|call| AGGREGATIONS.contains(&call.name.as_str()))
    }

    pub(super) fn is_inside(&self, functions: &[&str]) -> bool {
        self.calls.iter().any(|call| functions.contains(&call.name.as_str()))
    }
}

/// All series that an expression reads.
pub(super) fn selectors(expr: &str) -> Vec<Selector> {
    let tokens = tokens(expr);
    let token = |index: usize| tokens.get(index).map_or("", String::as_str);
    let (mut found, mut calls, mut named): (Vec<Selector>, Vec<Call>, Option<Call>) =
        Default::default();
    let mut at = 0;
    while at < tokens.len() {
        let (word, next) = (token(at), token(at + 1));
        at += 1;
        match word {
            "(" => calls.push(named.take().unwrap_or_default()),
            ")" => drop(calls.pop()),
            "by" => {
                let end =
                    at + tokens.iter().skip(at).position(|token| token == ")").expect("end of by");
                named.as_mut().expect("labels stand before the arguments").by =
                    names(&tokens[at..end]);
                at = end + 1;
            }
            _ if !is_name(word) || WORDS.contains(&word) => {}
            _ if next == "(" || AGGREGATIONS.contains(&word) => {
                named = Some(Call { name: word.into(), by: vec![] })
            }
            _ => {
                let mut selector = Selector {
                    metric: word.into(),
                    labels: vec![],
                    window: None,
                    calls: calls.clone(),
                };
                if next == "{" {
                    let end = at
                        + tokens
                            .iter()
                            .skip(at)
                            .position(|token| token == "}")
                            .expect("end of matchers");
                    selector.labels = names(&tokens[at..end]);
                    at = end + 1;
                }
                if token(at) == "[" {
                    selector.window = Some(token(at + 1).to_owned());
                    at += 3;
                }
                found.push(selector);
            }
        }
    }
    found
}

fn names(tokens: &[String]) -> Vec<String> {
    tokens.iter().filter(|token| is_name(token)).cloned().collect()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// Names, numbers, strings (with their first quote, to tell them from names) and single characters.
fn tokens(expr: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expr.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_word =
            |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | ':' | '$' | '.');
        let end = match first {
            '"' => 1 + rest[1..].find('"').expect("end of the text") + 1,
            _ if in_word(first) => rest.find(|sign| !in_word(sign)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    tokens
}

#[test]
fn an_expression_is_taken_apart() {
    let expr = r#"topk by (task) (1, max by (task, store) (increase(a_total{task=~"x|", reason!="(b"}[$__range]))) > 0 or 2 * b:c"#;
    let call = |name: &str, by: &[&str]| Call {
        name: name.into(),
        by: by.iter().map(|label| (*label).into()).collect(),
    };
    let a = Selector {
        metric: "a_total".into(),
        labels: vec!["task".into(), "reason".into()],
        window: Some("$__range".into()),
        calls: vec![
            call("topk", &["task"]),
            call("max", &["task", "store"]),
            call("increase", &[]),
        ],
    };
    let b = Selector { metric: "b:c".into(), labels: vec![], window: None, calls: vec![] };
    assert_eq!(selectors(expr), [a, b]);
}
