//! What the command's exit code tells the script that called it.

use std::process::ExitCode;

/// How a command ended. The codes are part of the interface, and stand in `weir --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything was done, or the reader of the output had seen enough.
    Ok,
    /// 1: a statement failed, a result holds errors of rows, or a test differs.
    Failed,
    /// 2: the command line is wrong; nothing was run.
    Usage,
    /// 130: stopped by Ctrl-C, as shells number it (128 + SIGINT).
    Interrupted,
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_exits_as_shells_number_it() {
        const SIGINT: u8 = 2;
        assert_eq!(Exit::Interrupted.code(), 128 + SIGINT);
    }

    #[test]
    fn only_success_exits_with_zero() {
        assert_eq!(Exit::Ok.code(), 0);
        assert_eq!([Exit::Failed, Exit::Usage].map(Exit::code), [1, 2]);
    }
}
