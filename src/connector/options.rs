//! The connectors and formats there are, and the options each takes: one table for validation and for the reference.
//!
//! An option that the table's connector and format do not take is an error that offers the nearest name. No code can
//! read an option that is not listed here.

use std::fmt::{Display, Write};
use std::str::FromStr;

use super::TableSpec;
use crate::error::{Error, Result};

/// A connector, as CREATE TABLE names it.
#[derive(Debug)]
pub struct Connector {
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    pub about: &'static str,
    /// Whether it takes `format` and the format's options.
    pub formatted: bool,
    pub options: &'static [OptionInfo],
}

/// A format, as `'format' = ...` names it.
#[derive(Debug)]
pub struct Format {
    pub name: &'static str,
    pub about: &'static str,
    pub options: &'static [OptionInfo],
}

/// An option: its name (`<column>` stands for a column's name), what it is if not given, and what it means.
#[derive(Debug)]
pub struct OptionInfo {
    pub name: &'static str,
    pub default: Option<&'static str>,
    pub meaning: &'static str,
}

const fn option(name: &'static str, default: Option<&'static str>, meaning: &'static str) -> OptionInfo {
    OptionInfo { name, default, meaning }
}

/// All connectors.
pub const CONNECTORS: &[Connector] = &[
    Connector {
        name: "file",
        aliases: &["filesystem"],
        about: "Reads files once, from beginning to end, or writes one file.",
        formatted: true,
        options: &[
            option(
                "path",
                None,
                "a file, a folder (its files in name order) or a pattern with * in its last part; a sink truncates the file",
            ),
            option("follow", Some("false"), "a source keeps reading what is appended to the one file, and never ends"),
        ],
    },
    Connector { name: "stdin", aliases: &[], about: "Reads standard input; one table can.", formatted: true, options: &[] },
    Connector {
        name: "datagen",
        aliases: &[],
        about: "Makes up rows: the same seed gives the same rows.",
        formatted: false,
        options: &[
            option("rows-per-second", Some("10000"), "how fast; 0 for as fast as it goes"),
            option("number-of-rows", None, "ends after so many rows; never without it, unless a sequence ends"),
            option("seed", Some("0"), "what random values follow from"),
            option("fields.<column>.kind", Some("random"), "random, or sequence (numbers and VARCHAR)"),
            option("fields.<column>.start", None, "a sequence's first value"),
            option(
                "fields.<column>.end",
                None,
                "a sequence's last value; the source ends with it (needed unless number-of-rows or another sequence ends it)",
            ),
            option("fields.<column>.min", None, "the least random value (the type's least; 1970-01-01 for times)"),
            option("fields.<column>.max", None, "the greatest random value (the type's greatest; 2037-12-31 23:59:59 for times)"),
            option("fields.<column>.length", Some("100"), "how many hexadecimal digits a random VARCHAR has, or bytes a VARBINARY"),
            option("fields.<column>.null-rate", Some("0"), "the share of NULLs, from 0 to 1"),
        ],
    },
    Connector {
        name: "nexmark",
        aliases: &[],
        about: "The event stream of the Nexmark benchmark: columns event_type, person, auction, bid, or one kind of event.",
        formatted: false,
        options: &[
            option("table", None, "person, auction or bid: only these events, their fields as columns"),
            option("events", None, "ends after so many events, counted over all three kinds; never without it"),
            option("rate", Some("0"), "events a second; 0 for as fast as it goes"),
            option("event-rate", Some("10000"), "events a second of event time"),
            option("base-time", Some("2015-07-15 00:00:00"), "the event time of the first event"),
            option("seed", Some("0"), "what is drawn: another seed gives other people, auctions and bids, in the same proportions"),
        ],
    },
    Connector {
        name: "print",
        aliases: &[],
        about: "Writes every change as a line, such as +I[a, 1].",
        formatted: false,
        options: &[option("print-identifier", None, "stands before every line, followed by '> '")],
    },
    Connector { name: "blackhole", aliases: &[], about: "Takes every change and keeps none.", formatted: false, options: &[] },
    Connector {
        name: "changelog",
        aliases: &[],
        about: "Keeps the changes in memory as a table that can be queried: its columns and op, at, seq.",
        formatted: false,
        options: &[],
    },
];

/// All formats.
pub const FORMATS: &[Format] = &[
    Format {
        name: "csv",
        about: "A record a line, RFC 4180. An unquoted field that is the null literal is NULL; a quoted one never is.",
        options: &[
            option("csv.header", Some("false"), "the first record of a file names its fields, which are then found by name"),
            option("csv.field-delimiter", Some(","), "one ASCII character, or \\t"),
            option("csv.quote-character", Some("\""), "one ASCII character"),
            option("csv.null-literal", Some(""), "how NULL is written"),
            option("csv.allow-comments", Some("false"), "lines that begin with # are no records"),
            CHANGELOG,
        ],
    },
    Format {
        name: "json",
        about: "An object a line. Fields that are no column are ignored, and a column without a field is NULL.",
        options: &[CHANGELOG],
    },
    Format {
        name: "debezium-json",
        about: "Debezium's change events: before, after and op (c, r, u, d).",
        options: &[option("debezium-json.schema-include", Some("false"), "a source's events are under payload, beside their schema")],
    },
];

const CHANGELOG: OptionInfo = option("changelog", Some("false"), "a first field, op, says what a row does: +I, -U, +U, -D");

/// Options that come with any format.
const FORMATTED: &[OptionInfo] = &[
    option("format", None, "csv, json or debezium-json"),
    option("on_error", Some("fail"), "what a row that cannot be decoded does: fail (an error of the table) or skip (counted)"),
];

/// The reference of all connectors, formats and options, in Markdown.
pub fn reference() -> String {
    let mut out = String::new();
    for connector in CONNECTORS {
        let also: String = connector.aliases.iter().map(|alias| format!(" (also `{alias}`)")).collect();
        section(&mut out, &format!("connector `{}`{also}", connector.name), connector.about, &[connector.options]);
    }
    for format in FORMATS {
        section(&mut out, &format!("format `{}`", format.name), format.about, &[FORMATTED, format.options]);
    }
    out
}

fn section(out: &mut String, title: &str, about: &str, options: &[&[OptionInfo]]) {
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("writing to a string does not fail");
    line(format_args!("### {title}\n\n{about}\n"));
    if options.iter().any(|options| !options.is_empty()) {
        line(format_args!("| option | default | meaning |\n|---|---|---|"));
        for option in options.iter().copied().flatten() {
            let default = option.default.map_or(String::new(), |default| format!("`{default}`"));
            line(format_args!("| `{}` | {default} | {} |", option.name, option.meaning));
        }
        line(format_args!(""));
    }
}

/// The options of one table, all of them known.
#[derive(Debug)]
pub(super) struct Options<'a> {
    pub spec: &'a TableSpec,
    pub connector: &'static Connector,
    /// The format, of a connector that takes one.
    pub format: Option<&'static Format>,
}

impl<'a> Options<'a> {
    /// Looks up the connector, the format and the name of every option.
    pub fn new(spec: &'a TableSpec) -> Result<Self> {
        let table = &spec.name;
        let all = CONNECTORS.iter().flat_map(|c| std::iter::once(c.name).chain(c.aliases.iter().copied()));
        let name = given(spec, "connector").ok_or_else(|| {
            Error::invalid(format!(
                "table '{table}' has options but no 'connector' (there is {})",
                all.clone().collect::<Vec<_>>().join(", ")
            ))
        })?;
        let connector = CONNECTORS
            .iter()
            .find(|c| c.name == name || c.aliases.contains(&name))
            .ok_or_else(|| Error::unknown("connector", name, all))?;
        let format = if connector.formatted { Some(find_format(spec)?) } else { None };
        let options = Options { spec, connector, format };
        options.check_names()?;
        Ok(options)
    }

    /// What the option is given as, or by default.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        given(self.spec, name).or_else(|| self.find(name).unwrap_or_else(|| panic!("option '{name}' is in the table of options")).default)
    }

    /// What an option without which the connector cannot work is given as.
    pub fn require(&self, name: &str) -> Result<&'a str> {
        self.get(name).ok_or_else(|| {
            Error::invalid(format!("table '{}': connector '{}' needs the option '{name}'", self.spec.name, self.connector.name))
        })
    }

    /// An option that is 'true' or 'false'.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.require(name)?.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong(name, "'true' or 'false'")),
        }
    }

    /// An option that is a number, or None where it has no value and no default.
    pub fn number<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>> {
        self.get(name).map(|value| value.trim().parse().map_err(|_| self.wrong(name, what))).transpose()
    }

    /// An option that is one of a few words; gives its position.
    pub fn choice(&self, name: &str, words: &[&str]) -> Result<usize> {
        let value = self.require(name)?;
        words.iter().position(|word| *word == value).ok_or_else(|| self.wrong(name, words.join(" or ")))
    }

    /// The error of an option whose value is not what it must be.
    pub fn wrong(&self, name: &str, must_be: impl Display) -> Error {
        let value = self.get(name).unwrap_or_default();
        Error::invalid(format!("table '{}': option '{name}' must be {must_be}, not '{value}'", self.spec.name))
    }

    fn check_names(&self) -> Result<()> {
        for (position, (name, _)) in self.spec.options.iter().enumerate() {
            if self.spec.options[..position].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(format!("table '{}': option '{name}' is given twice", self.spec.name)));
            }
            if name != "connector" && self.find(name).is_none() {
                return Err(Error::unknown("option", name, self.known().map(|option| option.name).chain(["connector"])));
            }
            if let Some(column) = column_of(name)
                && !self.spec.schema.fields().iter().any(|field| field.name() == column)
            {
                let columns = self.spec.schema.fields().iter().map(|field| field.name().as_str());
                return Err(Error::unknown("column", column, columns));
            }
        }
        Ok(())
    }

    fn known(&self) -> impl Iterator<Item = &'static OptionInfo> {
        let (common, own) = self.format.map_or((&[][..], &[][..]), |format| (FORMATTED, format.options));
        self.connector.options.iter().chain(common).chain(own)
    }

    fn find(&self, name: &str) -> Option<&'static OptionInfo> {
        self.known().find(|option| match option.name.split_once("<column>") {
            Some((before, after)) => name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after),
            None => option.name == name,
        })
    }
}

/// The column that an option `fields.<column>.something` is about.
fn column_of(name: &str) -> Option<&str> {
    name.strip_prefix("fields.").and_then(|rest| rest.rsplit_once('.')).map(|(column, _)| column)
}

fn given<'a>(spec: &'a TableSpec, name: &str) -> Option<&'a str> {
    spec.options.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
}

fn find_format(spec: &TableSpec) -> Result<&'static Format> {
    let names = FORMATS.iter().map(|format| format.name);
    let Some(name) = given(spec, "format") else {
        let names: Vec<&str> = names.collect();
        return Err(Error::invalid(format!("table '{}' needs the option 'format' (there is {})", spec.name, names.join(", "))));
    };
    FORMATS.iter().find(|format| format.name == name).ok_or_else(|| Error::unknown("format", name, names))
}
