//! An engine that may lose its process now and then, and begins again with what its folder has.
//!
//! Losing it is: a checkpoint is written, the folder copied, something else done that the copy does not know, and the engine
//! begun again with the copy, on as many workers as it happens to be.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir::engine::{Builder, Engine};
use weir::error::Result;

/// A folder of its own that is there for as long as this is.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-kept-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder with a file in it.
    pub fn with(self, file: &str, text: &str) -> Self {
        std::fs::write(self.0.join(file), text).expect("a file in a folder of ours");
        self
    }

    /// Another folder with the same files.
    pub fn copy(&self) -> Self {
        let copy = Folder::new();
        for entry in std::fs::read_dir(&self.0).expect("a folder of ours").flatten() {
            std::fs::copy(entry.path(), copy.0.join(entry.file_name())).expect("a file of ours is copied");
        }
        copy
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An engine, and how it is lost, if it is.
pub struct Kept {
    engine: Engine,
    losses: Option<Losses>,
}

struct Losses {
    count: usize,
    rng: StdRng,
    folder: Folder,
    make: Box<dyn Fn() -> Builder + Send>,
}

impl Kept {
    /// An engine that is not lost unless there is a seed for it.
    pub fn build(workers: usize, seed: Option<u64>, make: impl Fn() -> Builder + Send + 'static) -> Result<Self> {
        let Some(seed) = seed else { return Ok(Kept { engine: make().workers(workers).build()?, losses: None }) };
        let folder = Folder::new();
        let engine = make().workers(workers).state(folder.path()).build()?;
        Ok(Kept { engine, losses: Some(Losses { count: 0, rng: StdRng::seed_from_u64(seed), folder, make: Box::new(make) }) })
    }

    /// Perhaps loses the engine (once in so many times), after `lost` has been done that nobody will know of.
    pub fn once_in(&mut self, times: u32, lost: impl FnOnce(&Engine)) -> Result<()> {
        let is_lost = self.losses.as_mut().is_some_and(|losses| losses.rng.random_ratio(1, times));
        if is_lost { self.lose(lost) } else { Ok(()) }
    }

    /// Loses the engine, if it ever is.
    pub fn lose(&mut self, lost: impl FnOnce(&Engine)) -> Result<()> {
        let Some(losses) = &mut self.losses else { return Ok(()) };
        self.engine.checkpoint()?;
        let copy = losses.folder.copy();
        if losses.rng.random_bool(0.7) {
            lost(&self.engine);
        }
        // What it still says is of no interest.
        let _ = self.engine.shutdown();
        let workers = losses.rng.random_range(1..=3);
        self.engine = (losses.make)().workers(workers).state(copy.path()).build()?;
        assert!(self.engine.resumed().checkpoint.is_some(), "the copy has a checkpoint");
        losses.folder = copy;
        losses.count += 1;
        Ok(())
    }

    /// How often the engine has been lost.
    pub fn losses(&self) -> usize {
        self.losses.as_ref().map_or(0, |losses| losses.count)
    }
}

impl Deref for Kept {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
