//! JSON (RFC 8259), read piece by piece without building a document.
//!
//! A number stays the text that it was, so that DECIMAL and BIGINT lose no digit on the way through a double, and every
//! error has its position. A string is borrowed unless it has an escape.

use std::borrow::Cow;

/// How deep arrays and objects may be nested.
const DEPTH: usize = 128;

/// Where a text stops being JSON, in bytes from its beginning, and what would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    pub at: usize,
    pub what: &'static str,
}

/// The beginning of a value; of an array or object, only its bracket.
#[derive(Debug, PartialEq, Eq)]
pub enum Token<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    String(Cow<'a, str>),
    Array,
    Object,
}

/// A position in a text.
#[derive(Debug)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    /// Begins at a byte of a text.
    pub fn at(text: &'a str, at: usize) -> Self {
        Scanner { text, at, depth: 0 }
    }

    /// The beginning of the next value.
    pub fn token(&mut self) -> Result<Token<'a>, Syntax> {
        match self.peek() {
            Some(b'"') => self.string().map(Token::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            Some(b'{') => self.open(Token::Object),
            Some(b'[') => self.open(Token::Array),
            Some(b't') => self.word("true", Token::Bool(true)),
            Some(b'f') => self.word("false", Token::Bool(false)),
            Some(b'n') => self.word("null", Token::Null),
            _ => self.expected("a value"),
        }
    }

    /// After `{`: the next key, with its `:`; None at the end of the object.
    pub fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>, Syntax> {
        if !self.more(first, b'}', "',' or '}'")? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return self.expected("a field's name in quotes");
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return self.expected("':'");
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// After `[`: whether another element follows; false at the end of the array.
    pub fn element(&mut self, first: &mut bool) -> Result<bool, Syntax> {
        self.more(first, b']', "',' or ']'")
    }

    /// Passes over what is left of a value whose first token was this.
    pub fn skip_rest(&mut self, token: &Token<'a>) -> Result<(), Syntax> {
        let mut first = true;
        match token {
            Token::Array => {
                while self.element(&mut first)? {
                    self.skip()?;
                }
            }
            Token::Object => {
                while self.key(&mut first)?.is_some() {
                    self.skip()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Passes over a value.
    pub fn skip(&mut self) -> Result<(), Syntax> {
        let token = self.token()?;
        self.skip_rest(&token)
    }

    /// Passes over what is left of a value that began with a bracket just read: all of its text.
    pub fn raw_rest(&mut self, token: &Token<'a>) -> Result<&'a str, Syntax> {
        let start = self.at - 1;
        self.skip_rest(token)?;
        Ok(&self.text[start..self.at])
    }

    /// Where the next value begins.
    pub fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Checks that nothing follows.
    pub fn end(&mut self) -> Result<(), Syntax> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.expected("nothing more on the line"),
        }
    }

    /// The byte after any white space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, Syntax> {
        Err(Syntax { at: self.at, what })
    }

    fn open(&mut self, token: Token<'a>) -> Result<Token<'a>, Syntax> {
        if self.depth == DEPTH {
            return self.expected("no more than 128 levels of nesting");
        }
        self.depth += 1;
        self.at += 1;
        Ok(token)
    }

    fn more(&mut self, first: &mut bool, close: u8, what: &'static str) -> Result<bool, Syntax> {
        let begins = std::mem::replace(first, false);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth = self.depth.saturating_sub(1);
                Ok(false)
            }
            Some(b',') if !begins => {
                self.at += 1;
                match self.peek() {
                    Some(byte) if byte == close => self.expected("another element after ','"),
                    _ => Ok(true),
                }
            }
            Some(_) if begins => Ok(true),
            _ => self.expected(what),
        }
    }

    fn word(&mut self, word: &'static str, token: Token<'a>) -> Result<Token<'a>, Syntax> {
        if !self.text[self.at..].starts_with(word) {
            return self.expected("true, false or null");
        }
        self.at += word.len();
        Ok(token)
    }

    fn number(&mut self) -> Result<&'a str, Syntax> {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        let digits = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = digits(at);
        if whole == 0 || (whole > 1 && bytes[at] == b'0') {
            return self.expected("a number without leading zeros");
        }
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            if fraction == 0 {
                return self.expected("a number with digits after the point");
            }
            at += 1 + fraction;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at);
            if exponent == 0 {
                return self.expected("a number with digits after the exponent's sign");
            }
            at += exponent;
        }
        self.at = at;
        Ok(&self.text[start..at])
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Syntax> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(Cow::Borrowed(&self.text[start..at]));
                }
                Some(b'\\') => return self.escaped(start, at).map(Cow::Owned),
                Some(0x20..) => at += 1,
                Some(_) => return Err(Syntax { at, what: "an escape for a control character" }),
                None => return Err(Syntax { at: self.at, what: "a string with a closing quote" }),
            }
        }
    }

    /// The string that begins at `start` and has its first escape at `at`.
    fn escaped(&mut self, start: usize, mut at: usize) -> Result<String, Syntax> {
        let bytes = self.text.as_bytes();
        let mut out = String::from(&self.text[start..at]);
        let mut plain = at;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    out.push_str(&self.text[plain..at]);
                    self.at = at + 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.text[plain..at]);
                    let (character, after) = self.escape(at)?;
                    out.push(character);
                    (at, plain) = (after, after);
                }
                Some(0x20..) => at += 1,
                Some(_) => return Err(Syntax { at, what: "an escape for a control character" }),
                None => return Err(Syntax { at: self.at, what: "a string with a closing quote" }),
            }
        }
    }

    /// The character that the escape at `at` stands for, and where it ends.
    fn escape(&self, at: usize) -> Result<(char, usize), Syntax> {
        let wrong = Syntax { at, what: "an escape that JSON has" };
        let simple = match self.text.as_bytes().get(at + 1).ok_or(wrong)? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex(at + 2).ok_or(wrong)?;
                if let Some(character) = char::from_u32(high) {
                    return Ok((character, at + 6));
                }
                // A surrogate pair: the second half follows in an escape of its own.
                let low = self.text[at + 6..].starts_with("\\u").then(|| self.hex(at + 8)).flatten().ok_or(wrong)?;
                if !(0xd800..0xdc00).contains(&high) || !(0xdc00..0xe000).contains(&low) {
                    return Err(wrong);
                }
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok((char::from_u32(code).ok_or(wrong)?, at + 12));
            }
            _ => return Err(wrong),
        };
        Ok((simple, at + 2))
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.as_bytes().get(at..at + 4)?;
        digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))
    }
}

/// Appends a string in quotes.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => {
                out.push_str(&text[plain..at]);
                out.push_str("\\u00");
                crate::text::write_hex(out, &[byte]);
                plain = at + 1;
                continue;
            }
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        out.push_str(escape);
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn whole(text: &str) -> Result<(), Syntax> {
        let mut scanner = Scanner::at(text, 0);
        scanner.skip()?;
        scanner.end()
    }

    #[test]
    fn a_text_is_json_exactly_where_serde_json_says_so() {
        let pieces = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"\\n\"",
            "\"\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud800\"",
            "\"",
            "1",
            "01",
            "-",
            "-0.5",
            "1e5",
            "1.",
            "2E-3",
            " ",
            "true",
            "false",
            "null",
            "nul",
            "\u{e9}",
            "\t",
            "\\",
        ];
        let mut random = StdRng::seed_from_u64(7);
        let mut valid = 0;
        for _ in 0..200_000 {
            let text: String = (0..random.random_range(1..8)).map(|_| pieces[random.random_range(0..pieces.len())]).collect();
            let reference = serde_json::from_str::<serde_json::Value>(&text);
            // A matter of serde_json's numbers, not of JSON.
            if matches!(&reference, Err(error) if error.to_string().starts_with("number out of range")) {
                continue;
            }
            assert_eq!(whole(&text).is_ok(), reference.is_ok(), "{text}");
            valid += usize::from(reference.is_ok());
        }
        assert!(valid > 1_000, "too few of the texts were JSON to say much: {valid}");
    }

    #[test]
    fn a_string_is_read_as_serde_json_wrote_it() {
        let mut random = StdRng::seed_from_u64(8);
        for _ in 0..2_000 {
            let text: String = (0..random.random_range(0..12)).map(|_| char::from_u32(random.random_range(0..0x250)).unwrap()).collect();
            let text = text + if random.random() { "😀" } else { "" };
            let token = |json: &str| match Scanner::at(json, 0).token() {
                Ok(Token::String(text)) => text.into_owned(),
                other => panic!("{other:?}"),
            };
            assert_eq!(token(&serde_json::to_string(&text).unwrap()), text);
            let mut written = String::new();
            write_string(&mut written, &text);
            assert_eq!(token(&written), text);
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }

    #[test]
    fn nesting_without_end_is_an_error_and_no_overflow() {
        let error = whole(&"[".repeat(100_000)).unwrap_err();
        assert_eq!(error.at, 128);
    }
}
