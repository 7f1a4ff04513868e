//! How long each input of a query's operators is remembered, from what the session, the view and the hints say.
//!
//! Four things are said of an input: `state_ttl`, `state_ttl_max`, `on_expiry` and `ttl_refresh`. For each of them apart, the
//! nearest that says anything wins: a hint, the view's option for that input, the view's option, the session, and at
//! last that nothing is ever forgotten. `never` is something said.
//!
//! An input has the name that it has in FROM, its alias if it has one; what a join made is called by the names that
//! it is made of (`o+l`, in any order), in any case. [`Retentions::new`] checks all that can be checked of a query's
//! text. Which inputs are remembered at all is known when the query has been lowered: [`Retentions::of`] notes each name
//! it is asked for, and [`Retentions::check_all_used`] refuses what was said of any other.

mod from;
mod said;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::fmt;

use sqlparser::ast;

use self::from::FromClauses;
use self::said::{Level, Said};
use super::duration::{format_duration, parse_flink_duration};
use super::statement::{Hint, Query, SqlOption};
use crate::error::{Error, Result, nearest};
use crate::plan::{Memory, Origin, Refresh};

pub use said::{Defaults, FLINK_STATE_TTL, OPTIONS};

/// What a view, a job or a query says of its memory.
#[derive(Debug)]
pub struct Retentions {
    /// Of every input that nothing is said of by its name.
    others: Memory,
    /// What the view's options say of all inputs.
    view: Defaults,
    /// What is said by name, in the order of the text.
    inputs: Vec<Input>,
    from: FromClauses,
    /// The names that operators have asked for, each once.
    asked: RefCell<Vec<String>>,
    remembers: Cell<Remembers>,
}

/// Why an option changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vain {
    /// No operator remembers anything.
    NothingRemembered,
    /// It says how something is forgotten that never is.
    NoTtl,
    /// It says for how long after a write that does not touch: only the one that creates does, for `state_ttl_max`.
    OnlyCreated,
}

impl fmt::Display for Vain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vain::NothingRemembered => "the view remembers nothing",
            Vain::NoTtl => "no ttl is set beside it",
            Vain::OnlyCreated => "with ttl_refresh = 'create' only the first write counts, and from it on state_ttl_max is how long",
        })
    }
}

/// What operators have been told so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Remembers {
    /// None has asked.
    #[default]
    Nothing,
    Forever,
    /// One of them at least has a ttl.
    ForATime,
}

/// What is said of one input.
#[derive(Debug)]
struct Input {
    /// As it was written first.
    name: String,
    /// What said it first, for messages: `state_ttl.o`, `hint STATE_TTL('o')`.
    by: String,
    /// What the view's options say of it.
    options: Defaults,
    memory: Memory,
}

impl Retentions {
    /// Nothing is said: everything is remembered for ever.
    pub fn none() -> Self {
        Retentions {
            others: Memory::default(),
            view: Defaults::default(),
            inputs: vec![],
            from: FromClauses::default(),
            asked: RefCell::default(),
            remembers: Cell::default(),
        }
    }

    /// What a view's options say (a job and a query have none), with the session's defaults and the query's hints.
    ///
    /// # Errors
    /// [`Error::Unknown`] for an option that there is not; [`Error::Invalid`] for a value that means nothing, a
    /// `state_ttl_max` that bounds nothing, an input said twice or whose name stands more than once in the query's
    /// FROM clauses, and a hint for a join side without a name.
    pub fn new(session: &Defaults, options: &[SqlOption], query: &Query) -> Result<Self> {
        let from = FromClauses::of(&query.ast);
        let (view, mut named) = said::read_options(options)?;
        for (name, ttl) in hinted(&query.hints, &from)? {
            take_hint(&mut named, name, ttl)?;
        }
        let view = Level { said: &view, suffix: "", origin: Origin::View("state_ttl".into()) };
        let session = Level { said: session, suffix: "", origin: Origin::Session };
        let others = said::resolve(&[&view, &session])?;
        let mut inputs = vec![];
        for said in &named {
            from.check_unambiguous(&said.name, &said.by)?;
            let option =
                Level { said: &said.options, suffix: &said.suffix(), origin: Origin::Input(format!("state_ttl{}", said.suffix())) };
            let hint = said.hint.as_ref().map(|hint| Level { said: &hint.said, suffix: "", origin: Origin::Hint(hint.label.clone()) });
            let levels: Vec<&Level> = hint.iter().chain([&option, &view, &session]).collect();
            let memory = said::resolve(&levels)?;
            inputs.push(Input { name: said.name.clone(), by: said.by.clone(), options: said.options.clone(), memory });
        }
        let view = view.said.clone();
        Ok(Retentions { others, view, inputs, from, asked: RefCell::default(), remembers: Cell::default() })
    }

    /// Whether anything at all is forgotten.
    pub fn is_bounded(&self) -> bool {
        self.inputs.iter().map(|input| &input.memory).chain([&self.others]).any(|memory| memory.ttl.is_some())
    }

    /// The memory of an operator's input that has this name in FROM (`o`, or `o+l` for what a join made; `None` has no
    /// name). Notes that it was asked for.
    pub fn of(&self, name: Option<&str>) -> Memory {
        if let Some(name) = name {
            let mut asked = self.asked.borrow_mut();
            if !asked.iter().any(|other| same_input(other, name)) {
                asked.push(name.to_string());
            }
        }
        let found = self.inputs.iter().find(|input| name.is_some_and(|name| same_input(&input.name, name)));
        let memory = found.map_or(&self.others, |input| &input.memory);
        let told = if memory.ttl.is_some() { Remembers::ForATime } else { Remembers::Forever };
        self.remembers.set(self.remembers.get().max(told));
        memory.clone()
    }

    /// After lowering: the view's options that change nothing whatever their values, each with the reason.
    pub fn without_effect(&self) -> Vec<(String, Vain)> {
        let (of_view, why) = match self.remembers.get() {
            Remembers::Nothing => (self.view.names(|_| true), Vain::NothingRemembered),
            Remembers::Forever => (self.view.names(said::needs_ttl), Vain::NoTtl),
            Remembers::ForATime if lives_for_max(&self.others) => (self.view.names(said::is_ttl), Vain::OnlyCreated),
            Remembers::ForATime => (vec![], Vain::NoTtl),
        };
        let of_input = |input: &Input| -> Vec<(String, Vain)> {
            let (is_vain, why): (fn(&str) -> bool, _) = match &input.memory {
                memory if memory.ttl.is_none() => (said::needs_ttl, Vain::NoTtl),
                memory if lives_for_max(memory) => (said::is_ttl, Vain::OnlyCreated),
                _ => return vec![],
            };
            input.options.names(is_vain).iter().map(|option| (format!("{option}.{}", input.name), why)).collect()
        };
        of_view.into_iter().map(|option| (option.to_owned(), why)).chain(self.inputs.iter().flat_map(of_input)).collect()
    }

    /// After lowering.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the first input of which something is said and that no operator has asked for, with the
    /// names that were asked for.
    pub fn check_all_used(&self) -> Result<()> {
        let asked = self.asked.borrow();
        let unused = self.inputs.iter().find(|input| !asked.iter().any(|name| same_input(name, &input.name)));
        unused.map_or(Ok(()), |input| Err(self.nothing_called(input, &asked)))
    }

    fn nothing_called(&self, Input { name, by, .. }: &Input, asked: &[String]) -> Error {
        let there_is = match asked {
            [] => "it remembers nothing that has a name".to_string(),
            names => format!("there is {}", names.join(", ")),
        };
        let meant = match (self.from.alias_of(name), nearest(name, asked.iter().map(String::as_str))) {
            (Some(alias), _) => format!("; FROM calls it '{alias}'"),
            (None, Some(near)) => format!("; did you mean '{near}'?"),
            (None, None) => String::new(),
        };
        Error::invalid(format!("{by}: nothing that this query remembers is called '{name}'; {there_is}{meant}"))
    }
}

/// Whether what is remembered lives for the longer of two figures, whatever the shorter one is: it is touched once.
fn lives_for_max(memory: &Memory) -> bool {
    memory.refresh == Refresh::Create && memory.ttl_max.is_some_and(|max| memory.ttl != Some(max))
}

/// Options as ALTER VIEW leaves them: a new one takes the place of one of the same meaning (`state_ttl.o+l`, `state_ttl.L+O`).
pub fn altered(options: &[SqlOption], new: &[SqlOption]) -> Vec<SqlOption> {
    let replaced = |option: &SqlOption| new.iter().any(|new| said::same_option(&new.name, &option.name));
    options.iter().filter(|option| !replaced(option)).chain(new).cloned().collect()
}

/// How long a table's rows by primary key are remembered, by its options and the session's defaults.
///
/// # Errors
/// As [`Retentions::new`].
pub fn memory_of_table(session: &Defaults, options: &[SqlOption]) -> Result<Memory> {
    let (table, _) = said::read_options(options)?;
    let table = Level { said: &table, suffix: "", origin: Origin::Table };
    let session = Level { said: session, suffix: "", origin: Origin::Session };
    said::resolve(&[&table, &session])
}

/// How many JOIN keywords there are in a query's text.
pub(super) fn count_joins(query: &ast::Query) -> usize {
    FromClauses::of(query).joins.len()
}

/// What identifies an input: the names it is made of, in one order.
fn key(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = name.split('+').map(|part| part.trim().to_lowercase()).collect();
    parts.sort();
    parts.dedup();
    parts
}

fn same_input(a: &str, b: &str) -> bool {
    key(a) == key(b)
}

/// A ttl that a hint says of an input.
#[derive(Debug)]
struct HintedTtl {
    /// `STATE_TTL('o')`.
    label: String,
    said: Defaults,
}

/// All inputs of which hints say something.
fn hinted(hints: &[Hint], from: &FromClauses) -> Result<Vec<(String, HintedTtl)>> {
    let mut all = vec![];
    for hint in hints {
        match hint {
            Hint::StateTtl(options) => {
                for SqlOption { name, value } in options {
                    said::check_name(name, &format!("hint STATE_TTL('{name}')"))?;
                    all.push((name.clone(), HintedTtl::new(format!("STATE_TTL('{name}')"), value)?));
                }
            }
            Hint::JoinOptions { join, options } => {
                let sides = from.joins.get(*join).ok_or_else(|| Error::invalid("hint OPTIONS stands after no JOIN of its query"))?;
                for SqlOption { name, value } in options {
                    let side = match name.to_lowercase().as_str() {
                        "state.ttl.left" => &sides.left,
                        "state.ttl.right" => &sides.right,
                        _ => return Err(Error::unknown("OPTIONS hint key", name, ["state.ttl.left", "state.ttl.right"])),
                    };
                    let label = format!("OPTIONS('{}')", name.to_lowercase());
                    let Some(input) = side else {
                        return Err(Error::invalid(format!(
                            "hint {label} is for a side without a name: give the subquery in FROM an alias"
                        )));
                    };
                    all.push((input.clone(), HintedTtl::new(label, value)?));
                }
            }
            Hint::Other(_) => {}
        }
    }
    Ok(all)
}

impl HintedTtl {
    fn new(label: String, value: &str) -> Result<Self> {
        let ttl = said::milliseconds(&format!("hint {label}"), parse_flink_duration(value))?;
        Ok(HintedTtl { label, said: Defaults::of_ttl(ttl) })
    }
}

/// Adds what a hint says of an input to what is said of it already.
fn take_hint(named: &mut Vec<Said>, name: String, hint: HintedTtl) -> Result<()> {
    let position = named.iter().position(|said| same_input(&said.name, &name)).unwrap_or_else(|| {
        named.push(Said { by: format!("hint {}", hint.label), name, options: Defaults::default(), hint: None });
        named.len() - 1
    });
    let said = &mut named[position];
    match &said.hint {
        Some(other) if other.said != hint.said => {
            let (one, two) = (&other.label, &hint.label);
            Err(Error::invalid(format!("hints {one} and {two} say different things of '{}': keep one of them", said.name)))
        }
        _ => {
            said.hint = Some(hint);
            Ok(())
        }
    }
}
