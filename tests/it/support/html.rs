//! A strict parser of HTML and SVG as this program writes them. Any parser reads what it accepts in
//! the same way.

use std::collections::HashSet;

/// Void elements.
const VOID: [&str; 4] = ["meta", "link", "input", "br"];
/// Character references that text may contain.
const REFERENCES: [(&str, char); 5] =
    [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("#39", '\'')];

#[derive(Clone, Debug, Default)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) children: Vec<Node>,
}

/// The content of an element.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    /// Parses a whole document, or a fragment with one root element.
    #[track_caller]
    pub(crate) fn parse(text: &str) -> Element {
        let text = text.strip_prefix("<!doctype html>").unwrap_or(text);
        let mut parser = Parser { rest: text, ids: HashSet::new() };
        let root = parser.element().unwrap_or_else(|why| {
            let at = text.len() - parser.rest.len();
            panic!("{why} at byte {at}: {:?}", parser.rest.chars().take(120).collect::<String>())
        });
        assert_eq!(parser.rest, "", "something follows the root");
        root
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// This element and all its descendants, in document order.
    pub(crate) fn all(&self) -> Vec<&Element> {
        let mut found = vec![self];
        for child in &self.children {
            if let Node::Element(element) = child {
                found.extend(element.all());
            }
        }
        found
    }

    /// All descendants, itself included, with this name.
    pub(crate) fn named(&self, name: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|element| element.name == name).collect()
    }

    /// The same with this attribute.
    pub(crate) fn with(&self, attribute: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|element| element.attribute(attribute).is_some()).collect()
    }

    /// The one with this id.
    #[track_caller]
    pub(crate) fn id(&self, id: &str) -> &Element {
        let found = self.all().into_iter().find(|element| element.attribute("id") == Some(id));
        found.unwrap_or_else(|| panic!("no #{id}"))
    }

    /// Its text, with that of its descendants.
    pub(crate) fn text(&self) -> String {
        let text = |child: &Node| match child {
            Node::Text(text) => text.clone(),
            Node::Element(element) => element.text(),
        };
        self.children.iter().map(text).collect()
    }

    /// Its elements and the names of their attributes, without any value or text.
    pub(crate) fn skeleton(&self) -> String {
        let attributes: Vec<_> =
            self.attributes.iter().map(|(name, _)| format!(" {name}")).collect();
        let children = self.children.iter().map(|child| match child {
            Node::Element(element) => element.skeleton(),
            Node::Text(_) => String::new(),
        });
        format!("<{}{}>{}</>", self.name, attributes.concat(), children.collect::<String>())
    }
}

struct Parser<'a> {
    rest: &'a str,
    ids: HashSet<String>,
}

impl Parser<'_> {
    fn element(&mut self) -> Result<Element, String> {
        self.expect("<")?;
        let name = self.name()?;
        let mut element = Element { name, ..Element::default() };
        while self.rest.starts_with(' ') {
            self.expect(" ")?;
            let name = self.name()?;
            let value = if self.rest.starts_with('=') { self.quoted()? } else { String::new() };
            if element.attribute(&name).is_some() {
                return Err(format!("the attribute {name} comes twice"));
            }
            if ["style", "srcdoc"].contains(&name.as_str()) || name.starts_with("on") {
                return Err(format!("an attribute {name}"));
            }
            if name == "id" && !self.ids.insert(value.clone()) {
                return Err(format!("the id {value} comes twice"));
            }
            element.attributes.push((name, value));
        }
        if self.rest.starts_with("/>") {
            self.expect("/>")?;
            return Ok(element);
        }
        self.expect(">")?;
        if VOID.contains(&element.name.as_str()) {
            return Ok(element);
        }
        loop {
            if self.rest.starts_with("</") {
                self.expect("</")?;
                self.expect(&element.name)?;
                self.expect(">")?;
                return Ok(element);
            }
            let child = if self.rest.starts_with('<') {
                Node::Element(self.element()?)
            } else {
                Node::Text(self.text('<')?)
            };
            element.children.push(child);
        }
    }

    fn expect(&mut self, start: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(start).ok_or_else(|| format!("no {start:?}"))?;
        Ok(())
    }

    /// The name of an element or attribute.
    fn name(&mut self) -> Result<String, String> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let end = self.rest.find(|letter: char| !plain(letter)).ok_or("the end within a name")?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if name.is_empty() { Err("no name".to_owned()) } else { Ok(name.to_owned()) }
    }

    fn quoted(&mut self) -> Result<String, String> {
        self.expect("=\"")?;
        let value = self.text('"')?;
        self.expect("\"")?;
        Ok(value)
    }

    /// Text up to `end`, with its references resolved.
    fn text(&mut self, end: char) -> Result<String, String> {
        let length = self.rest.find(end).ok_or_else(|| format!("no {end:?}"))?;
        let (raw, rest) = self.rest.split_at(length);
        self.rest = rest;
        let mut parts = raw.split('&');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (reference, after) = part.split_once(';').ok_or("an & that is no reference")?;
            let known = REFERENCES
                .iter()
                .find(|(name, _)| *name == reference)
                .map(|(_, character)| *character);
            let number = || {
                reference.strip_prefix('#').and_then(|digits| char::from_u32(digits.parse().ok()?))
            };
            text.push(
                known.or_else(number).ok_or_else(|| format!("an unknown reference {reference}"))?,
            );
            text.push_str(after);
        }
        let obeyed = |letter: &char| {
            letter.is_control() || "\u{202e}\u{2066}\u{200b}\u{feff}".contains(*letter)
        };
        match raw.chars().find(|letter| obeyed(letter) || ['<', '>', '"'].contains(letter)) {
            Some(letter) => Err(format!("a {letter:?} in text")),
            None => Ok(text),
        }
    }
}

#[test]
fn what_a_browser_could_take_otherwise_is_refused() {
    let root = Element::parse("<!doctype html><a b=\"&quot;&#65;&amp;\" c>x&lt;y<br><d/></a>");
    assert_eq!(
        (root.attribute("b"), root.attribute("c"), root.text()),
        (Some("\"A&"), Some(""), "x<y".to_owned())
    );
    assert_eq!(root.skeleton(), "<a b c><br></><d></></>");
    for bad in [
        "<a>",
        "<a></b>",
        "<a b=c></a>",
        "<a b='c'></a>",
        "<a b=\"1\" b=\"2\"></a>",
        "<a style=\"x\"></a>",
        "<a onclick=\"x\"></a>",
        "<a>&</a>",
        "<a>&nope;</a>",
        "<a>></a>",
        "<a>\"</a>",
        "<a>\n</a>",
        "<a>\u{202e}</a>",
        "<a><b id=\"x\"/><c id=\"x\"/></a>",
        "<a></a>x",
        "<a><!-- --></a>",
    ] {
        assert!(std::panic::catch_unwind(|| Element::parse(bad)).is_err(), "{bad}");
    }
}
