use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Users with the passwords `<name>-pw`, hashed at the lowest cost.
fn users(names: &[&str]) -> BTreeMap<String, Secret> {
    let hash = |name: &str| bcrypt::hash(format!("{name}-pw"), 4).unwrap();
    names.iter().map(|name| ((*name).to_owned(), Secret::new(hash(name)))).collect()
}

fn sent(user: &str, password: &str) -> Credentials {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    Credentials::of(format!("Basic {encoded}").as_bytes()).unwrap()
}

#[test]
fn a_header_is_read_as_the_reference_reads_it() {
    let of = |header: &str| {
        let found = Credentials::of(header.as_bytes())?;
        Some((String::from_utf8(found.user).unwrap(), String::from_utf8(found.password).unwrap()))
    };
    let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
    assert_eq!(of("Basic YTpi"), pair("a", "b"));
    assert_eq!(of("bAsIc YTpi"), pair("a", "b"));
    assert_eq!(of("Basic YTpiOmM="), pair("a", "b:c"), "the first colon ends the name");
    assert_eq!(of("Basic Og=="), pair("", ""));
    for wrong in ["", "Basic", "Basic ", "Basic YQ==", "Basic !", "Bearer YTpi", "BasicYTpi"] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
}

#[test]
fn neither_name_nor_password_is_shown() {
    assert_eq!(format!("{:?}", sent("hunter1", "hunter2")), "Credentials(…)");
}

#[tokio::test]
async fn a_good_login_is_checked_once_and_a_wrong_one_each_time() {
    let (logins, users) = (Logins::new(), users(&["a", "b"]));
    let granted = Access::Granted("a".to_owned());
    for _ in 0..3 {
        assert_eq!(logins.check(&users, &sent("a", "a-pw"), PEER).await, granted);
    }
    assert_eq!(logins.checks(), 1);
    for (user, password) in [("a", "b-pw"), ("b", "a-pw"), ("a", ""), ("", ""), ("c", "a-pw")] {
        assert_eq!(logins.check(&users, &sent(user, password), PEER).await, Access::Denied);
    }
    assert_eq!(logins.checks(), 6, "one for each, whether the user exists or not");
}

#[tokio::test]
async fn an_unknown_user_is_never_let_in_by_the_hash_of_another() {
    let (logins, users) = (Logins::new(), users(&["a"]));
    let password = sent("a", "a-pw");
    assert_eq!(logins.check(&users, &password, PEER).await, Access::Granted("a".to_owned()));
    for _ in 0..2 {
        assert_eq!(logins.check(&users, &sent("b", "a-pw"), PEER).await, Access::Denied);
    }
}

#[tokio::test]
async fn a_login_is_forgotten_with_its_hash() {
    let logins = Logins::new();
    let (before, after) = (users(&["a"]), users(&["a"]));
    let mut other = after.clone();
    other.insert("a".to_owned(), Secret::new(bcrypt::hash("other", 4).unwrap()));
    assert_ne!(logins.check(&before, &sent("a", "a-pw"), PEER).await, Access::Denied);
    assert_eq!(logins.check(&other, &sent("a", "a-pw"), PEER).await, Access::Denied);
    assert_eq!(logins.check(&BTreeMap::new(), &sent("a", "a-pw"), PEER).await, Access::Denied);
}

#[tokio::test]
async fn wrong_logins_in_masses_are_bounded_and_hold_up_no_other_address() {
    let (logins, users) = (Arc::new(Logins::new()), Arc::new(users(&["a"])));
    // Nobody's turn comes, so that all of them wait.
    let turn = Arc::clone(&logins.one).acquire_owned().await.unwrap();
    let (sender, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let ask = |user: String, password: String, peer: IpAddr| {
        let (logins, users, sender) = (Arc::clone(&logins), Arc::clone(&users), sender.clone());
        tokio::spawn(async move {
            let access = logins.check(&users, &sent(&user, &password), peer).await;
            sender.send(access).unwrap();
        })
    };
    let flood: Vec<_> =
        (0..1_000).map(|n| ask("a".to_owned(), format!("wrong {n}"), PEER)).collect();
    let busy = flood.len() - LINE_MAX_OF_ONE;
    for _ in 0..busy {
        assert_eq!(outcomes.recv().await, Some(Access::Busy));
    }
    let elsewhere = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let same = [(); 3].map(|()| ask("a".to_owned(), "a-pw".to_owned(), elsewhere));
    tokio::time::timeout(Duration::from_secs(60), async {
        while lock(&logins.line).len() <= LINE_MAX_OF_ONE {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    drop(turn);
    let mut granted = 0;
    for _ in 0..LINE_MAX_OF_ONE + same.len() {
        granted += usize::from(outcomes.recv().await != Some(Access::Denied));
    }
    assert_eq!(granted, same.len(), "the right login from another address");
    assert_eq!(logins.checks(), LINE_MAX_OF_ONE as u64 + 1, "the same login is checked once");
    for task in flood.into_iter().chain(same) {
        task.await.unwrap();
    }
    assert!(lock(&logins.line).is_empty(), "nobody waits any more");
}

#[tokio::test]
async fn who_gives_up_leaves_the_line() {
    let (logins, users) = (Logins::new(), users(&["a"]));
    let turn = Arc::clone(&logins.one).acquire_owned().await.unwrap();
    let gone = sent("a", "a-pw");
    let waited =
        tokio::time::timeout(Duration::from_millis(1), logins.check(&users, &gone, PEER)).await;
    assert!(waited.is_err());
    assert!(lock(&logins.line).is_empty());
    drop(turn);
    assert_ne!(logins.check(&users, &gone, PEER).await, Access::Denied);
}
