//! Simulated machines in a private network: network namespaces that are joined by a bridge, with
//! packet filters by nft.
//!
//! Nothing is visible outside: this program first enters a namespace of its own
//! ([`enter_own_network`]), and all namespaces end with their processes.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Environment variable that shows this program that it is in its own network.
const INSIDE: &str = "LOCKWATCH_LAB_OWN_NETWORK";
/// Arguments of `unshare` to enter a namespace: as root, and as another user where the kernel
/// allows user namespaces.
const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
/// The required tools.
const TOOLS: [&str; 4] = ["unshare", "nsenter", "ip", "nft"];
/// Folders of these tools that are not on an ordinary user's `PATH`.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];
const BRIDGE: &str = "lw0";
/// From the range that is reserved for network tests (RFC 2544).
const NETWORK: [u8; 3] = [198, 18, 0];
const TABLE: &str = "lockwatch_cut";

/// Which packets of a machine are dropped; never those between its own processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partition {
    /// All packets.
    Both,
    /// Incoming packets.
    Inwards,
    /// Outgoing packets.
    Outwards,
    /// All packets from and to the other machines; this program and its children can still reach
    /// it.
    Peers,
}

/// Whether this program is in its own network, where machines can be created.
pub(crate) fn has_own_network() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Replaces this process by the same program in a network of its own.
///
/// # Errors
/// Returns only on failure, with the reason.
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

/// Makes 127.0.0.1 reachable in a network of its own, which begins without.
///
/// # Errors
/// When `ip` refuses.
pub(crate) async fn prepare_own_network() -> anyhow::Result<()> {
    ip(&["link", "set", "lo", "up"]).await
}

/// The machines of a run and their bridge. They are removed when dropped.
#[derive(Debug)]
pub(crate) struct Machines(Vec<Machine>);

/// A network namespace with one address.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) address: Ipv4Addr,
    pub(crate) door: Door,
    /// The process that keeps the namespace alive. It ends with this program at the latest, because
    /// it reads from a pipe.
    _keeper: Child,
}

/// Gives access to a machine while it exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    keeper: u32,
}

impl Machines {
    /// Creates `count` machines that can reach each other and this program.
    ///
    /// # Errors
    /// When the network cannot be created; the error has the refused command.
    pub(crate) async fn start(count: u8) -> anyhow::Result<Machines> {
        if !has_own_network() {
            bail!("machines are only made in a network of this program's own");
        }
        let own = format!("{}/24", address(1));
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

    /// Drops these packets of one machine from now on.
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

/// The nft table that drops and counts these packets.
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
        // The output reports that the process is inside.
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

    /// Number of packets dropped since the machine was cut off.
    ///
    /// # Errors
    /// When the machine is not cut off.
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

    /// Removes all packet filters of the machine.
    ///
    /// # Errors
    /// When nft refuses.
    pub(crate) async fn mend(&self) -> anyhow::Result<()> {
        // Added first, because deleting a missing table is an error.
        self.nft(&format!("add table inet {TABLE}\ndelete table inet {TABLE}\n")).await.map(drop)
    }
}

impl Door {
    /// A command that starts a program on the machine; the child process is the program itself.
    ///
    /// # Errors
    /// When `nsenter` is missing.
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

/// Runs a command to its end; returns its output.
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
