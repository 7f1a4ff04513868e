//! What can be run: each workload's queries, their SQL, and the rows that they get.

use super::tpch;
use crate::error::{Error, Result};
use crate::sql;
use crate::sql::statement::{Parsed, Statement};

/// A set of queries over the same input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// The queries of the Nexmark benchmark, over its stream of events
    Nexmark,
    /// queries/dau.sql over two months of made-up logins, with its ttl, with 3 days for everything, without any
    Dau,
    /// queries/clicks.sql over made-up clicks
    Clicks,
    /// The queries of TPC-H: a load, then orders that come and go
    Tpch,
}

/// A query's name, and the page that it is from.
type Page = (&'static str, &'static str);

macro_rules! pages {
    ($($name:literal: $path:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../../../queries/", $path)))),*] };
}

/// The pages are in the binary, so that it runs anywhere.
const NEXMARK: &[Page] = pages! {
    "q0": "nexmark/q0.sql", "q1": "nexmark/q1.sql", "q2": "nexmark/q2.sql", "q3": "nexmark/q3.sql",
    "q4": "nexmark/q4.sql", "q5": "nexmark/q5.sql", "q6": "nexmark/q6.sql", "q7": "nexmark/q7.sql",
    "q8": "nexmark/q8.sql", "q9": "nexmark/q9.sql", "q10": "nexmark/q10.sql", "q11": "nexmark/q11.sql",
    "q12": "nexmark/q12.sql", "q13": "nexmark/q13.sql", "q14": "nexmark/q14.sql", "q15": "nexmark/q15.sql",
    "q16": "nexmark/q16.sql", "q17": "nexmark/q17.sql", "q18": "nexmark/q18.sql", "q19": "nexmark/q19.sql",
    "q20": "nexmark/q20.sql", "q21": "nexmark/q21.sql", "q22": "nexmark/q22.sql", "q23": "nexmark/q23.sql",
};
const DAU: &[Page] = pages! { "as_it_is": "dau.sql", "three_days": "dau.sql", "for_ever": "dau.sql" };
const CLICKS: &[Page] = pages! { "clicks": "clicks.sql" };
const TPCH: &[Page] = pages! {
    "q1": "tpch/q1.sql", "q2": "tpch/q2.sql", "q3": "tpch/q3.sql", "q4": "tpch/q4.sql",
    "q5": "tpch/q5.sql", "q6": "tpch/q6.sql", "q7": "tpch/q7.sql", "q8": "tpch/q8.sql",
    "q9": "tpch/q9.sql", "q10": "tpch/q10.sql", "q11": "tpch/q11.sql", "q12": "tpch/q12.sql",
    "q13": "tpch/q13.sql", "q14": "tpch/q14.sql", "q15": "tpch/q15.sql", "q16": "tpch/q16.sql",
    "q17": "tpch/q17.sql", "q18": "tpch/q18.sql", "q19": "tpch/q19.sql", "q20": "tpch/q20.sql",
    "q21": "tpch/q21.sql", "q22": "tpch/q22.sql",
};

/// How many days the logins of `dau` are of.
const DAYS: u64 = 60;

/// A page as it is run here.
#[derive(Debug, Clone)]
pub struct Job {
    /// The statements before the first view: settings and tables.
    definitions: Vec<String>,
    /// The definitions of views, none of which is kept for its own sake.
    views: Vec<String>,
    /// The names of those whose changes are the result.
    results: Vec<String>,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Nexmark => "nexmark",
            Workload::Dau => "dau",
            Workload::Clicks => "clicks",
            Workload::Tpch => "tpch",
        }
    }

    fn pages(self) -> &'static [Page] {
        match self {
            Workload::Nexmark => NEXMARK,
            Workload::Dau => DAU,
            Workload::Clicks => CLICKS,
            Workload::Tpch => TPCH,
        }
    }

    /// The queries with these names, in the workload's order; without names, all.
    pub fn chosen(self, names: &[String]) -> Result<Vec<&'static str>> {
        let all = || self.pages().iter().map(|(name, _)| *name);
        const KINDS: [&str; 4] = ["query of nexmark", "query of dau", "query of clicks", "query of tpch"];
        match names.iter().find(|name| all().all(|known| known != name.as_str())) {
            Some(unknown) => Err(Error::unknown(KINDS[self as usize], unknown, all())),
            None => Ok(all().filter(|known| names.is_empty() || names.iter().any(|name| name == known)).collect()),
        }
    }

    /// What runs a query over so many events (of TPC-H, over whatever is in its tables).
    pub fn job(self, query: &str, events: u64) -> Result<Job> {
        let page = self.pages().iter().find(|(name, _)| *name == query);
        let (_, page) = page.ok_or_else(|| Error::invalid(format!("{} has no query '{query}'", self.name())))?;
        let mut job = Job { definitions: vec![], views: vec![], results: vec![] };
        if self == Workload::Tpch {
            job.definitions = tables_in(page)?;
        }
        if query == "three_days" {
            job.definitions.push("SET state_ttl = '3 days'".into());
        }
        for parsed in sql::statements(page) {
            let Parsed { statement, text, .. } = parsed?;
            match statement {
                Statement::CreateTable(table) => job.definitions.push(match table.name.as_str() {
                    "events" => text.replace("'events' = '100000'", &format!("'events' = '{events}'")),
                    "logins" => logins(events),
                    "clicks" => clicks(events),
                    _ => text,
                }),
                Statement::CreateView(view) => {
                    job.results.extend(view.materialized.then_some(view.name));
                    let text = text.replacen("CREATE MATERIALIZED VIEW", "CREATE VIEW", 1);
                    job.views.push(match query {
                        "three_days" | "for_ever" => text.replace(" WITH (state_ttl = '3 days', on_expiry = 'keep')", ""),
                        _ => text,
                    });
                }
                Statement::Set { .. } => job.definitions.push(text),
                // What a page shows, and where it writes, is not what is measured.
                _ => {}
            }
        }
        Ok(job)
    }
}

impl Job {
    /// The statements that define everything but the jobs.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().chain(&self.views).map(String::as_str)
    }

    pub fn results(&self) -> &[String] {
        &self.results
    }
}

/// The definitions of the tables of TPC-H that a page's statements name.
fn tables_in(page: &str) -> Result<Vec<String>> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let statements = sql::statements(page).collect::<Result<Vec<_>>>()?;
    let names = |parsed: &Parsed, name: &str| parsed.text.split(|letter| !is_word(letter)).any(|word| word == name);
    let mut read = Vec::new();
    for parsed in sql::statements(tpch::TABLES) {
        let Parsed { statement, text, .. } = parsed?;
        if let Statement::CreateTable(table) = statement
            && statements.iter().any(|parsed| names(parsed, &table.name))
        {
            read.push(text);
        }
    }
    Ok(read)
}

/// A table of logins like that of the page: as many on every day, of users who come at random, fifty times each on average where
/// there are enough of them.
fn logins(events: u64) -> String {
    let (a_day, users) = ((events / DAYS).max(1), (events / 50).max(10));
    // 2026-01-05, the page's first day.
    let day = format!("CAST(CAST(20458 + n / {a_day} AS INT) AS DATE)");
    format!(
        "CREATE TABLE logins (n BIGINT, user_id BIGINT, t_date AS {day}, ts AS CAST({day} AS TIMESTAMP(3)), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
               'fields.n.end' = '{}', 'fields.user_id.min' = '1', 'fields.user_id.max' = '{users}')",
        events - 1
    )
}

/// A table of clicks like that of the page: two hundred sessions at a time, of five clicks on average, and pages as often as there.
fn clicks(events: u64) -> String {
    format!(
        "CREATE TABLE clicks (n BIGINT, visitor INT, page INT,
             at AS TO_TIMESTAMP_MILLIS(1769990400000 + n * 20),
             session_id AS CONCAT('s', CAST(n / 1000 * 200 + visitor AS VARCHAR)),
             url AS CASE WHEN page < 30 THEN '/' WHEN page < 48 THEN '/search' WHEN page < 62 THEN '/product/1'
                         WHEN page < 73 THEN '/product/2' WHEN page < 80 THEN '/product/3' WHEN page < 89 THEN '/cart'
                         WHEN page < 93 THEN '/help' ELSE '/checkout' END)
         WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
               'fields.n.end' = '{}', 'fields.visitor.min' = '0', 'fields.visitor.max' = '199', 'fields.page.min' = '0',
               'fields.page.max' = '97')",
        events - 1
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_page_of_a_benchmark_is_in_the_binary_under_its_name() {
        for (folder, pages) in [("queries/nexmark", NEXMARK), ("queries/tpch", TPCH)] {
            let mut files: Vec<(String, String)> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap()))
                .filter(|(name, _)| name != "tables")
                .collect();
            files.sort_by_key(|(name, _)| name[1..].parse::<u32>().unwrap());
            let pages: Vec<(String, String)> = pages.iter().map(|(name, page)| (name.to_string(), page.to_string())).collect();
            assert!(files == pages, "{folder} and its table differ");
        }
    }

    #[test]
    fn a_query_of_tpch_has_the_tables_that_it_reads_and_no_others() {
        for (query, tables) in
            [("q6", vec!["lineitem"]), ("q11", vec!["nation", "supplier", "partsupp"]), ("q17", vec!["part", "lineitem"])]
        {
            let job = Workload::Tpch.job(query, 0).unwrap();
            let said = |table: &&str| job.definitions.iter().any(|definition| definition.starts_with(&format!("CREATE TABLE {table} ")));
            assert!(tables.iter().all(said) && job.definitions.len() == tables.len(), "{query}: {:?}", job.definitions);
        }
    }

    #[test]
    fn every_query_has_results_and_reads_as_many_events_as_asked_for() {
        for workload in Workload::value_variants() {
            for (query, _) in workload.pages() {
                let job = workload.job(query, 1_234_567).unwrap();
                let text = job.definitions().collect::<Vec<_>>().join(";\n");
                let counts = text.contains("'1234567'") || text.contains("'1234566'");
                assert!(counts || *workload == Workload::Tpch, "{query}: {text}");
                assert!(!job.results().is_empty() && !text.contains("MATERIALIZED"), "{query}: {text}");
            }
        }
    }

    #[test]
    fn of_the_three_memories_of_dau_one_is_its_own_one_the_sessions_and_one_has_no_end() {
        let said = |query| Workload::Dau.job(query, 100).unwrap().definitions().collect::<Vec<_>>().join(";").matches("3 days").count();
        let view = |query| Workload::Dau.job(query, 100).unwrap().views.join(";").matches("state_ttl").count();
        assert_eq!(["as_it_is", "three_days", "for_ever"].map(said), [1, 1, 0]);
        assert_eq!(["as_it_is", "three_days", "for_ever"].map(view), [1, 0, 0]);
    }

    #[test]
    fn a_query_that_is_not_there_is_answered_with_those_there_are() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(Workload::Nexmark.chosen(&names("q5,q0")), Ok(vec!["q0", "q5"]));
        assert_eq!(Workload::Nexmark.chosen(&[]).map(|all| all.len()), Ok(24));
        let error = Workload::Dau.chosen(&names("for_evr")).unwrap_err().to_string();
        assert_eq!(error, "there is no query of dau 'for_evr'; did you mean 'for_ever'? (there is for_ever, as_it_is, three_days)");
    }
}
