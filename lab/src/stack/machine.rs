//! Machines of their own in a network of this run: network namespaces, joined by a bridge, whose
//! packets nft drops.
//!
//! Nothing of it is seen outside: this program first goes into a namespace of its own
//! ([`enter_own_network`]), and all of them end with the processes in them.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Says to this program that the network around it is its own.
const INSIDE: &str = "LOCKWATCH_LAB_OWN_NETWORK";
/// The ways into a namespace: as root, and as anybody where the kernel lets everybody be root of
/// what is his own.
const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
/// What is needed for that, each as `program --version` or alike would find it.
const TOOLS: [&str; 4] = ["unshare", "nsenter", "ip", "nft"];
/// Where an ordinary user's `PATH` does not look for them.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
const BRIDGE: &str = "lw0";
/// Of the range that is set apart for tests of networks (RFC 2544).
const NETWORK: [u8; 3] = [198, 18, 0];
const TABLE: &str = "lockwatch_cut";

/// Which packets of a machine are dropped; those of its processes to each other never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partition {
    /// All.
    Both,
    /// Those that come.
    Inwards,
    /// Those that go.
    Outwards,
    /// All from and to the other machines: only this program and its children still reach it.
    Peers,
}

/// Whether this program is in a network of its own, where there may be machines.
pub(crate) fn has_own_network() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Begins this program anew in a network of its own, in place of this process.
///
/// # Errors
/// Always if it returns: why that is not possible here.
pub(crate) fn enter_own_network() -> anyhow::Error {
    let way = || {
        for tool in TOOLS {
            find(tool)?;
        }
        let works = |way: &&&[&str]| {
            let mut probe = std::process::Command::new("unshare");
            probe
                .args(**way)
                .arg("true")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            probe.status().is_ok_and(|status| status.success())
        };
        WAYS.iter()
            .find(works)
            .copied()
            .context("neither root's nor a user's own network namespaces are allowed here")
    };
    let (way, this) = match (way(), std::env::current_exe()) {
        (Ok(way), Ok(this)) => (way, this),
        (Err(error), _) => return error,
        (_, Err(error)) => return error.into(),
    };
    let mut again = std::process::Command::new("unshare");
    again.args(way).arg("--").arg(this).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    anyhow::Error::from(again.exec()).context("cannot start unshare")
}

/// The machines of a run and the bridge that joins them. They are gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Machines(Vec<Machine>);

/// A network namespace with one address.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) address: Ipv4Addr,
    pub(crate) door: Door,
    /// The process that keeps the namespace; it ends with this program at the latest, for it waits
    /// for words from it.
    _keeper: Child,
}

/// Leads into a machine as long as there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    keeper: u32,
}

impl Machines {
    /// So many machines, all of which reach each other and this program.
    ///
    /// # Errors
    /// When the network cannot be built, with what was refused.
    pub(crate) async fn start(count: u8) -> anyhow::Result<Machines> {
        if !has_own_network() {
            bail!("machines are only made in a network of this program's own");
        }
        let own = format!("{}/24", address(1));
        ip(&["link", "set", "lo", "up"]).await?;
        ip(&["link", "add", "name", BRIDGE, "type", "bridge"]).await?;
        ip(&["address", "add", &own, "dev", BRIDGE]).await?;
        ip(&["link", "set", BRIDGE, "up"]).await?;
        let mut machines = Vec::new();
        for number in 0..count {
            machines.push(Machine::start(&format!("lw{}", number + 1), address(number + 2)).await?);
        }
        Ok(Machines(machines))
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Machine> {
        self.0.get(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Machine> {
        self.0.iter()
    }

    /// Drops these packets of one of the machines from now on.
    ///
    /// # Errors
    /// When nft refuses.
    pub(crate) async fn cut(&self, index: usize, partition: Partition) -> anyhow::Result<()> {
        let machine = self.get(index).context("there is no such machine")?;
        let others = self.0.iter().filter(|other| other.address != machine.address);
        let others: Vec<String> = others.map(|other| other.address.to_string()).collect();
        machine.nft(&rules(partition, &others)).await.map(drop)
    }
}

/// The table that drops these packets, and counts them.
fn rules(partition: Partition, others: &[String]) -> String {
    let others = others.join(", ");
    let (inwards, outwards) = match partition {
        Partition::Both => ("counter drop".to_owned(), "counter drop".to_owned()),
        Partition::Inwards => ("counter drop".to_owned(), String::new()),
        Partition::Outwards => (String::new(), "counter drop".to_owned()),
        Partition::Peers => (
            format!("ip saddr {{ {others} }} counter drop"),
            format!("ip daddr {{ {others} }} counter drop"),
        ),
    };
    format!(
        "table inet {TABLE} {{\n\
         chain inwards {{\ntype filter hook input priority 0; policy accept;\niif lo accept\n\
         {inwards}\n}}\n\
         chain outwards {{\ntype filter hook output priority 0; policy accept;\noif lo accept\n\
         {outwards}\n}}\n}}\n"
    )
}

impl Machine {
    async fn start(port: &str, address: Ipv4Addr) -> anyhow::Result<Machine> {
        let mut command = Command::new(find("unshare")?);
        // It says so when it is inside.
        command.args(["--net", "sh", "-c", "echo inside; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut keeper = command.spawn().context("cannot start unshare")?;
        let mut word = [0; "inside".len()];
        let output = keeper.stdout.as_mut().context("no output")?;
        output.read_exact(&mut word).await.context("a namespace cannot be made")?;
        let door = Door { keeper: keeper.id().context("a namespace has ended")? };
        let keeper_id = door.keeper.to_string();
        ip(&["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", &keeper_id])
            .await?;
        ip(&["link", "set", port, "master", BRIDGE, "up"]).await?;
        let own = format!("{address}/24");
        let inside: [&[&str]; 3] = [
            &["link", "set", "lo", "up"],
            &["address", "add", &own, "dev", "eth0"],
            &["link", "set", "eth0", "up"],
        ];
        for words in inside {
            run(door.command(find("ip")?)?.args(words), "").await?;
        }
        Ok(Machine { address, door, _keeper: keeper })
    }

    async fn nft(&self, rules: &str) -> anyhow::Result<String> {
        run(self.door.command(find("nft")?)?.args(["-f", "-"]), rules).await
    }

    /// How many packets were dropped since it was cut off.
    ///
    /// # Errors
    /// When it is not cut off.
    pub(crate) async fn dropped(&self) -> anyhow::Result<u64> {
        let listed =
            run(self.door.command(find("nft")?)?.args(["list", "table", "inet", TABLE]), "")
                .await?;
        let words: Vec<&str> = listed.split_whitespace().collect();
        let counts = words.windows(2).filter_map(|pair| match pair {
            ["packets", count] => count.parse::<u64>().ok(),
            _ => None,
        });
        Ok(counts.sum())
    }

    /// Drops nothing any more, whatever was dropped before.
    ///
    /// # Errors
    /// When nft refuses.
    pub(crate) async fn mend(&self) -> anyhow::Result<()> {
        // Made first, so that there is one to be removed.
        self.nft(&format!("add table inet {TABLE}\ndelete table inet {TABLE}\n")).await.map(drop)
    }
}

impl Door {
    /// What starts a program in there; the process is the program itself, not a parent of it.
    ///
    /// # Errors
    /// When there is no `nsenter`.
    pub(crate) fn command(self, program: PathBuf) -> anyhow::Result<Command> {
        let mut command = Command::new(find("nsenter")?);
        command.arg(format!("--net=/proc/{}/ns/net", self.keeper)).arg("--").arg(program);
        Ok(command)
    }
}

fn address(last: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, last)
}

fn find(tool: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let found = folders.map(|folder| folder.join(tool)).find(|file| file.is_file());
    found.with_context(|| {
        format!("there is no {tool}; Debian's packages for it: util-linux, iproute2, nftables")
    })
}

async fn ip(words: &[&str]) -> anyhow::Result<()> {
    run(Command::new(find("ip")?).args(words), "").await.map(drop)
}

/// Runs it to its end; what it says.
async fn run(command: &mut Command, input: &str) -> anyhow::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        bail!("{:?}: {}", command.as_std(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
