//! Finds the programs that the parts need.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A program that a part needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `redis-server`.
    RedisServer,
    /// `prometheus`.
    Prometheus,
    /// `promtool`.
    Promtool,
    /// `alertmanager`; Debian's is called `prometheus-alertmanager`.
    Alertmanager,
    /// `amtool`.
    Amtool,
    /// `nginx`, which Debian has in `/usr/sbin`.
    Nginx,
    /// `chromedriver`, which starts Chromium.
    Chromedriver,
    /// `redis-benchmark`.
    RedisBenchmark,
    /// `redis_exporter`, the peer in the benchmarks, as built by `scripts/setup bench`.
    RedisExporter,
    /// The agent, in the folder of this program.
    Lockwatch,
    /// The lab's own program: in the folder of the tests, or this program itself.
    Lab,
}

impl Program {
    /// The path of the program: from its environment variable, on `PATH`, or in this program's
    /// folder.
    ///
    /// # Errors
    /// When it is missing; the error says how to install it.
    pub fn find(self) -> anyhow::Result<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable()).map(PathBuf::from) {
            return if is_file(&named) {
                Ok(named)
            } else {
                bail!("{}={}: no such file", self.variable(), named.display())
            };
        }
        match self {
            Program::Lockwatch | Program::Lab => self.beside_this_program(),
            // Never from `PATH`: the figures are for the pinned version.
            Program::RedisExporter => pinned_exporter(),
            _ => self.on_path(),
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Program::RedisServer => "REDIS_SERVER",
            Program::Prometheus => "PROMETHEUS",
            Program::Promtool => "PROMTOOL",
            Program::Alertmanager => "ALERTMANAGER",
            Program::Amtool => "AMTOOL",
            Program::Nginx => "NGINX",
            Program::Chromedriver => "CHROMEDRIVER",
            Program::RedisBenchmark => "REDIS_BENCHMARK",
            Program::RedisExporter => "REDIS_EXPORTER",
            Program::Lockwatch => "LOCKWATCH",
            Program::Lab => "LOCKWATCH_LAB",
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Program::RedisServer => &["redis-server"],
            Program::Prometheus => &["prometheus"],
            Program::Promtool => &["promtool"],
            Program::Alertmanager => &["prometheus-alertmanager", "alertmanager"],
            Program::Amtool => &["amtool"],
            Program::Nginx => &["nginx"],
            Program::Chromedriver => &["chromedriver"],
            Program::RedisBenchmark => &["redis-benchmark"],
            Program::RedisExporter => &["redis_exporter"],
            Program::Lockwatch => &["lockwatch"],
            Program::Lab => &["lockwatch-lab"],
        }
    }

    fn on_path(self) -> anyhow::Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates = std::env::split_paths(&path)
            // Not on every user's path.
            .chain([PathBuf::from("/usr/sbin")])
            .flat_map(|folder| self.names().iter().map(move |name| folder.join(name)));
        let found = candidates.into_iter().find(|candidate| is_file(candidate));
        found.with_context(|| {
            format!(
                "there is no {} on PATH: install it, or name it with {}",
                self.names().join(" or "),
                self.variable()
            )
        })
    }

    /// Test programs are one folder deeper than others.
    fn beside_this_program(self) -> anyhow::Result<PathBuf> {
        let this = std::env::current_exe().context("cannot find the running program")?;
        let folder = this.parent().map(|folder| {
            if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder }
        });
        let expected = folder.unwrap_or(Path::new("")).join(self.names().concat());
        if !is_file(&expected) {
            bail!(
                "there is no {}: run `cargo build --workspace` (with the same profile), or name \
                 it with {}",
                expected.display(),
                self.variable()
            );
        }
        Ok(expected)
    }
}

fn pinned_exporter() -> anyhow::Result<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers/redis_exporter");
    if !is_file(&built) {
        bail!(
            "redis_exporter is not built: run `scripts/setup bench`, which needs Go, or name it \
             with REDIS_EXPORTER"
        );
    }
    Ok(built)
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}
