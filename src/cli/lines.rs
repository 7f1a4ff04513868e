//! Lines of a shell's input, put together to what they mean: statements up to a `;`, or a command that begins with `\`.

use super::script::{BYTE_ORDER_MARK, skip_blanks};
use crate::sql;

/// What some lines came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A line of the shell's own, beginning with `\`.
    Command(String),
    /// One or more statements, and the line on which their text begins, from 1.
    Statements { text: String, line: u64 },
}

/// The lines that have not yet come to anything.
#[derive(Debug, Default)]
pub struct Lines {
    pending: String,
    /// Lines seen so far.
    seen: u64,
    /// The line on which `pending` begins.
    begin: u64,
}

impl Lines {
    /// Adds a line (without its line break).
    pub fn push(&mut self, line: &str) -> Option<Input> {
        let line = if self.seen == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        self.seen += 1;
        if self.pending.is_empty() {
            if line.trim_start().starts_with('\\') {
                return Some(Input::Command(line.trim().to_owned()));
            }
            // A comment over several lines has to stay with what ends it.
            if skip_blanks(line).is_empty() && !line.contains("/*") {
                return None;
            }
            self.begin = self.seen;
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        // Only a line with a ';' can be a statement's last: long statements are not parsed again at every line.
        if line.contains(';') && sql::is_complete(&self.pending) { self.rest() } else { None }
    }

    /// Whether a statement has been begun.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Gives up the statement that has been begun.
    pub fn abandon(&mut self) {
        self.pending.clear();
    }

    /// What has been begun, ended or not.
    pub fn rest(&mut self) -> Option<Input> {
        let text = std::mem::take(&mut self.pending);
        (!skip_blanks(&text).is_empty()).then_some(Input::Statements { text, line: self.begin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all lines of a text come to, with what is left at its end.
    fn all(text: &str) -> Vec<Input> {
        let mut lines = Lines::default();
        let mut inputs: Vec<Input> = text.lines().filter_map(|line| lines.push(line)).collect();
        inputs.extend(lines.rest());
        inputs
    }

    fn statements(text: &str, line: u64) -> Input {
        Input::Statements { text: text.into(), line }
    }

    #[test]
    fn a_statement_goes_on_until_its_semicolon() {
        assert_eq!(all("SELECT 1\n  + 1;\nSELECT 2;"), [statements("SELECT 1\n  + 1;\n", 1), statements("SELECT 2;\n", 3)]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(all("\u{feff}\\d\nSELECT 1;"), [Input::Command("\\d".into()), statements("SELECT 1;\n", 2)]);
    }

    #[test]
    fn the_last_statement_of_a_pipe_needs_no_semicolon() {
        assert_eq!(all("SELECT 1"), [statements("SELECT 1\n", 1)]);
    }

    #[test]
    fn blank_lines_and_comments_come_to_nothing_and_still_count() {
        assert_eq!(all("\n-- a comment\n\nSELECT 1;\n\n"), [statements("SELECT 1;\n", 4)]);
        assert_eq!(all("/* only\n a comment */\n"), []);
    }

    #[test]
    fn a_backslash_is_a_command_only_where_a_statement_could_begin() {
        assert_eq!(all("  \\d t "), [Input::Command("\\d t".into())]);
        assert_eq!(all("SELECT '\n\\d';"), [statements("SELECT '\n\\d';\n", 1)]);
    }

    #[test]
    fn an_abandoned_statement_leaves_no_trace() {
        let mut lines = Lines::default();
        assert_eq!(lines.push("SELECT oops"), None);
        assert!(lines.is_pending());
        lines.abandon();
        assert!(!lines.is_pending());
        assert_eq!(lines.push("SELECT 1;"), Some(statements("SELECT 1;\n", 2)));
    }
}
