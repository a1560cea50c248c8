//! Behind a login, and TLS: the page is live, and a user flips the own switch on it.

use std::collections::BTreeMap;
use std::time::Duration;

use lockwatch_lab::page::Hand;
use lockwatch_lab::stack::{Agent, Axe, Browser, Data, Key, Media, Redis, Site, WebFile};
use serde_json::json;

use crate::page::support::{
    LIVE, PATIENCE, assert_quiet, is_the_same_document, open_live_at, row, too_wide, verdict,
};

const LEASE: Duration = Duration::from_secs(600);
const TASK: &str = "/tasks/outbound";
const WANT: &str = "/api/v1/tasks/outbound/want";
const ON_PAGE: &str = ", want: {page: true}";

/// Script expression: which buttons for a switch can be seen.
const BUTTONS: &str = "[...document.querySelectorAll('button[data-want]')].filter(button => \
    button.checkVisibility()).map(button => button.dataset.want).join()";
/// Script expression: what the page says of the last click.
const SAID: &str = "document.querySelector('#own-switch output').textContent";

/// An agent behind a web_file, with a browser that is not yet at its page. Fields are dropped in order.
struct Trial {
    browser: Browser,
    agent: Agent,
    hand: Hand,
    redis: Redis,
}

impl Trial {
    async fn start(web_file: WebFile, want: &str) -> Trial {
        let redis = Redis::start().await.unwrap();
        let hand = Hand::at(&redis).await.unwrap();
        hand.hold(b"outbound:lock", b"first:1", LEASE).await.unwrap();
        let config = format!(
            "redis: {{main: {{url: \"redis://{}\", interval: 200ms, timeout: 1s{want}}}}}\ntasks:\n\
             - {{name: outbound, lock: {{key: \"outbound:lock\"}}, wanted: {{hash: users}}, grace: \
             1s, settle: 1s, blind_after: 2s}}\n\
             - {{name: counted, lock: {{key: counted}}, wanted: {{counter: count}}}}\n\
             - {{name: steady, lock: {{key: steady}}, wanted: always}}\n",
            redis.address()
        );
        let agent = Agent::start_behind(web_file, &config).await.unwrap();
        let browser = Browser::start().await.unwrap();
        Trial { browser, agent, hand, redis }
    }

    async fn open(&self, user: &str, path: &str) {
        open_live_at(&self.browser, &self.agent.url_for(user, path)).await;
    }

    async fn until(&self, expression: &str) {
        self.browser.until(PATIENCE, expression).await.unwrap();
    }

    async fn click(&self, want: &str) {
        let script = "document.querySelector(`button[data-want=${arguments[0]}]`).click()";
        self.browser.run(script, &[json!(want)]).await.unwrap();
    }

    async fn until_said(&self, words: &str) {
        self.until(&format!("{SAID}.includes({})", json!(words))).await;
    }

    /// Waits until the table of the users shows this one's switch.
    async fn until_shown(&self, user: &str, switch: &str) {
        self.until(&format!(
            "[...document.querySelectorAll('#task tr')].some(({{cells}}) => cells[0].textContent \
             === {} && cells[1].textContent === {})",
            json!(user),
            json!(switch)
        ))
        .await;
    }

    /// Makes the page draw itself anew, and waits until it has.
    async fn redraw(&self, holder: &str) {
        self.hand.hold(b"outbound:lock", format!("{holder}:1").as_bytes(), LEASE).await.unwrap();
        self.until(&format!("document.querySelector('#task').textContent.includes('{holder}')"))
            .await;
    }

    /// Checks the switches in Redis, by user.
    async fn assert_switches(&self, expected: &[(&str, &str)]) {
        let mut connection = self.redis.connect().await.unwrap();
        let switches: BTreeMap<String, String> =
            redis::cmd("HGETALL").arg("users").query_async(&mut connection).await.unwrap();
        let switches: Vec<_> =
            switches.iter().map(|(user, value)| (user.as_str(), value.as_str())).collect();
        assert_eq!(switches, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_behind_a_login_is_live() {
    for web_file in [WebFile::with_login().unwrap(), WebFile::with_login_and_tls().unwrap()] {
        let trial = Trial::start(web_file, "").await;
        trial.open("anna", "/").await;
        trial.until(&format!("{} === 'stopped'", verdict("counted"))).await;
        trial.until(LIVE).await;
        trial.hand.hold(b"outbound:lock", b"second:1", LEASE).await.unwrap();
        trial.until(&format!("{}.cells[3].textContent.includes('second')", row("outbound"))).await;
        let picture = "const picture = new Image(); picture.src = '/badge/outbound.svg'; \
            document.body.append(picture);";
        trial.browser.run(picture, &[]).await.unwrap();
        trial.until("document.images[0].complete && document.images[0].naturalWidth > 0").await;
        assert!(is_the_same_document(&trial.browser).await);
        trial.open("bert", TASK).await;
        trial.redraw("third").await;
        assert!(is_the_same_document(&trial.browser).await);
        assert_quiet(&trial.browser, |_| false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_flips_the_own_switch_and_sees_what_follows() {
    for web_file in [WebFile::with_login().unwrap(), WebFile::with_login_and_tls().unwrap()] {
        let trial = Trial::start(web_file, ON_PAGE).await;
        trial.hand.set(b"users", b"bert", "false").await.unwrap();
        // Those without a switch of a single user have no buttons.
        for path in ["/", "/tasks/counted", "/tasks/steady"] {
            trial.open("anna", path).await;
            trial.until(LIVE).await;
            assert_eq!(trial.browser.value(BUTTONS).await.unwrap(), "", "{path}");
        }
        trial.open("anna", TASK).await;
        assert_eq!(trial.browser.value(BUTTONS).await.unwrap(), "on,off");
        trial.until_shown("bert", "off").await;

        trial.click("on").await;
        trial.until_said("It is on now.").await;
        trial.assert_switches(&[("anna", "true"), ("bert", "false")]).await;
        trial.until_shown("anna", "on").await;
        let event = |words: &str| {
            format!(
                "[...document.querySelectorAll('#task .events tr')].some(({{cells}}) => \
                 cells[1].textContent === 'a user switched the task {words}, on the page' && \
                 cells[2].textContent === 'anna')"
            )
        };
        trial.until(&event("on")).await;

        // Nobody does the work, so an alert comes and moves what is below it.
        trial.hand.delete(b"outbound:lock").await.unwrap();
        let prepare = "document.querySelector('#task details').open = true; \
            document.querySelector('[data-want=off]').focus();";
        trial.browser.run(prepare, &[]).await.unwrap();
        trial.until("document.querySelector('#alerts').checkVisibility()").await;
        trial.until_said("It is on now.").await;
        let focused = "document.activeElement.dataset.want ?? null";
        assert_eq!(trial.browser.value(focused).await.unwrap(), "off", "the focus stays");
        let open = "document.querySelector('#task details').open";
        assert_eq!(trial.browser.value(open).await.unwrap(), true, "what is open stays");
        trial.browser.press(&[Key::Enter]).await.unwrap();
        trial.until_said("It is off now.").await;
        trial.assert_switches(&[("anna", "false"), ("bert", "false")]).await;
        trial.until_shown("anna", "off").await;
        trial.until(&event("off")).await;
        trial.until("!document.querySelector('#alerts').checkVisibility()").await;
        trial.until_said("It is off now.").await;
        assert_eq!(trial.browser.value(focused).await.unwrap(), "off", "the focus stays");
        assert!(is_the_same_document(&trial.browser).await);
        assert_quiet(&trial.browser, |_| false).await;
    }
}

/// Replaces `fetch`: what flips a switch waits until the test lets it go.
const HELD: &str = "const real = window.fetch; \
    window.held = []; \
    window.fetch = async (url, options) => { \
        if (options?.method === 'POST') await new Promise(go => window.held.push(go)); \
        return real(url, options); \
    };";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_wish_holds_however_slow_the_answers_are() {
    let trial = Trial::start(WebFile::with_login().unwrap(), ON_PAGE).await;
    trial.browser.before_pages(HELD).await.unwrap();
    trial.open("anna", TASK).await;
    for want in ["on", "off"] {
        trial.click(want).await;
    }
    trial.until("window.held.length === 1").await;
    trial.browser.run("window.held[0]()", &[]).await.unwrap();
    trial.until_said("It is on now.").await;
    trial.until("window.held.length === 2").await;
    trial.browser.run("window.held[1]()", &[]).await.unwrap();
    trial.until_said("It is off now.").await;
    trial.assert_switches(&[("anna", "false")]).await;
}

/// Replaces `fetch`: a proxy in between refuses what flips a switch, in its own format.
const REFUSED: &str = "const real = window.fetch; \
    window.fetch = async (url, options) => options?.method === 'POST' \
        ? new Response('The gateway has no room.', {status: 429}) \
        : real(url, options);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_on_the_way_is_shown_in_its_own_words() {
    let trial = Trial::start(WebFile::with_login().unwrap(), ON_PAGE).await;
    trial.browser.before_pages(REFUSED).await.unwrap();
    trial.open("anna", TASK).await;
    trial.click("on").await;
    trial.until_said("The gateway has no room.").await;
    trial.assert_switches(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_shown_and_stays_to_be_read() {
    let mut trial = Trial::start(WebFile::with_login().unwrap(), ON_PAGE).await;
    // Two programs write the name, each in its own way.
    let twice = [("\"anna\"", "false"), ("anna", "false")];
    for (user, switch) in twice {
        trial.hand.set(b"users", user.as_bytes(), switch).await.unwrap();
    }
    trial.open("anna", TASK).await;
    trial.click("on").await;
    let words = "2 names read as anna: \"anna\", anna; remove those that no program uses";
    trial.until_said(words).await;
    trial.redraw("second").await;
    trial.until_said(words).await;
    trial.assert_switches(&twice).await;

    trial.hand.send(redis::pipe().hdel("users", "\"anna\"")).await.unwrap();
    trial.click("on").await;
    trial.until_said("It is on now.").await;

    trial.redis.save().await.unwrap();
    trial.redis.kill().await.unwrap();
    trial.click("off").await;
    trial.until_said("cannot reach redis").await;
    let shown = trial.browser.value(SAID).await.unwrap();
    trial.until("document.querySelector('#task .verdict').textContent === 'unknown'").await;
    assert_eq!(trial.browser.value(SAID).await.unwrap(), shown);
    trial.redis.start_again(Data::Kept).await.unwrap();
    trial.until("document.querySelector('#task .verdict').textContent === 'running'").await;
    trial.until_shown("anna", "on").await;
    trial.assert_switches(&[("anna", "true")]).await;
    trial.click("off").await;
    trial.until_said("It is off now.").await;
    trial.assert_switches(&[("anna", "false")]).await;
    assert!(is_the_same_document(&trial.browser).await);
    assert_quiet(&trial.browser, |line| line.is_of_the_network()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_is_not_allowed_or_without_the_script_there_are_no_buttons() {
    let post = "const [url, done] = arguments; fetch(url, {method: 'POST', headers: \
        {'Content-Type': 'application/json'}, body: '{\"want\": \"on\"}'}) \
        .then(answer => done(answer.status), error => done(String(error)))";
    for want in ["", ", want: {page: false}"] {
        let trial = Trial::start(WebFile::with_login().unwrap(), want).await;
        trial.open("anna", TASK).await;
        trial.until(LIVE).await;
        assert_eq!(trial.browser.value(BUTTONS).await.unwrap(), "", "{want}");
        // Not relative: nothing can be fetched from the page's address, which has a login in it.
        let url = format!("http://{}{WANT}", trial.agent.address());
        assert_eq!(trial.browser.run_async(post, &[json!(url)]).await.unwrap(), 404, "{want}");
        trial.assert_switches(&[]).await;
    }
    let trial = Trial::start(WebFile::with_login().unwrap(), ON_PAGE).await;
    trial.browser.scripts(false).await.unwrap();
    trial.open("anna", TASK).await;
    let shown = "document.querySelector('#task h1').checkVisibility()";
    assert_eq!(trial.browser.value(shown).await.unwrap(), true);
    assert_eq!(trial.browser.value(BUTTONS).await.unwrap(), "", "without the script");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_site_flips_nothing() {
    // What a page can send without the agent's leave, and what it would need the leave for.
    let tries = "const [url, done] = arguments, body = '{\"want\": \"on\"}'; \
        const post = options => fetch(url, {method: 'POST', credentials: 'include', body, \
            ...options}).then(answer => answer.type, error => error.name); \
        Promise.all([ \
            post({mode: 'no-cors', headers: {'Content-Type': 'text/plain'}}), \
            post({headers: {'Content-Type': 'application/json'}}), \
        ]).then(done)";
    let form = "const form = document.createElement('form'), field = \
        document.createElement('input'); \
        [form.method, form.action, form.enctype] = ['POST', arguments[0], 'text/plain']; \
        [field.name, field.value] = ['{\"want\": \"on\", \"x\": \"', '\"}']; \
        form.append(field); document.body.append(form); form.submit();";
    for web_file in [WebFile::with_login().unwrap(), WebFile::with_login_and_tls().unwrap()] {
        let trial = Trial::start(web_file, ON_PAGE).await;
        let page = "<!doctype html><title>WMS</title>";
        let other = Site::open(Site::address().unwrap(), [("/", page.to_owned())]).await.unwrap();
        // From here on the browser sends the login with each request to the agent.
        trial.open("anna", TASK).await;
        let url = trial.browser.value(&format!("location.origin + '{WANT}'")).await.unwrap();
        for place in [other.url("/"), format!("data:text/html,{page}")] {
            trial.browser.open(&place).await.unwrap();
            let outcomes =
                trial.browser.run_async(tries, std::slice::from_ref(&url)).await.unwrap();
            assert_eq!(outcomes, json!(["TypeError", "TypeError"]), "{place}");
            trial.browser.run(form, std::slice::from_ref(&url)).await.unwrap();
            trial.until("document.body.innerText.includes(\"by another site's page\")").await;
        }
        trial.assert_switches(&[]).await;
        trial.open("anna", TASK).await;
        trial.click("on").await;
        trial.until_said("It is on now.").await;
        trial.assert_switches(&[("anna", "true")]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_finds_nothing_at_the_buttons() {
    let trial = Trial::start(WebFile::with_login().unwrap(), ON_PAGE).await;
    let axe = Axe::load().unwrap();
    for (dark, width) in [(false, 1280), (true, 1280), (false, 390), (true, 320)] {
        trial.browser.media(Media { dark, calm: true }).await.unwrap();
        trial.browser.size(width, 900).await.unwrap();
        trial.open("anna", TASK).await;
        trial.click("on").await;
        trial.until_said("It is on now.").await;
        let at = format!("dark: {dark}, {width}");
        let violations = axe.violations(&trial.browser).await.unwrap();
        assert!(violations.is_empty(), "{at}: {violations:?}");
        // Keys and names are long, and so are the words of a refusal that has them.
        let long = "document.querySelector('#own-switch output').textContent = 'k'.repeat(300)";
        trial.browser.run(long, &[]).await.unwrap();
        assert_eq!(too_wide(&trial.browser, &at).await, None);
    }
}
