//! Authentication: the whole table of requests and proofs.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::Studio;
use super::http::{HttpResponse, Request};
use crate::kit::TestProject;

/// The proof of identity that a caller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    None,
    WrongCookie,
    WrongBearer,
    OtherPort,
    Cookie,
    Bearer,
}

impl Proof {
    const ALL: [Self; 6] = [
        Self::None,
        Self::WrongCookie,
        Self::WrongBearer,
        Self::OtherPort,
        Self::Cookie,
        Self::Bearer,
    ];

    fn add(self, request: Request, studio: &Studio) -> Request {
        let cookie = |port: u16, key: &str| format!("a=b; teamster-studio-{port}={key}; c=d");
        let wrong = "0".repeat(64);
        match self {
            Self::None => request,
            Self::WrongCookie => request.header("Cookie", &cookie(studio.port, &wrong)),
            Self::WrongBearer => request.bearer(&wrong),
            Self::OtherPort => request.header("Cookie", &cookie(1, &studio.bearer)),
            Self::Cookie => request.header("Cookie", &cookie(studio.port, &studio.bearer)),
            Self::Bearer => request.bearer(&studio.bearer),
        }
    }
}

/// The requests: method, path, and whether they must come from the page itself.
const QUESTIONS: [(&str, &str, bool); 6] = [
    ("GET", "/", false),
    ("GET", "/api/v1/teams", false),
    ("GET", "/api/v1/teams/fix-auth", false),
    ("GET", "/metrics", false),
    ("POST", "/api/v1/teams/fix-auth/messages", true),
    ("POST", "/api/v1/zombies/reap", true),
];

#[test]
fn every_combination_that_must_be_refused_is() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let port = studio.port;
    let own = format!("http://127.0.0.1:{port}");
    let hosts = [
        (Some(format!("127.0.0.1:{port}")), true),
        (Some(format!("localhost:{port}")), true),
        (None, false),
        (Some("127.0.0.1".to_owned()), false),
        (Some(format!("evil.example:{port}")), false),
        (Some(format!("127.0.0.1.evil.example:{port}")), false),
        (Some(format!("127.0.0.1:{}", port.wrapping_add(1))), false),
        (Some(format!("0.0.0.0:{port}")), false),
    ];
    let origins = [
        None,
        Some("own"),
        Some("null"),
        Some("http://evil.example"),
        Some("http://127.0.0.1:1"),
        Some("https://own"),
    ];
    let sites = [
        None,
        Some("same-origin"),
        Some("none"),
        Some("same-site"),
        Some("cross-site"),
    ];
    let (mut asked, mut entered) = (0, 0);
    for (method, path, acts) in QUESTIONS {
        for (host, is_ours) in &hosts {
            for proof in Proof::ALL {
                for origin in origins {
                    for site in sites {
                        let host_name = host.as_deref().unwrap_or_default();
                        let origin = origin.map(|word| match word {
                            "own" => format!("http://{host_name}"),
                            "https://own" => format!("https://{host_name}"),
                            other => other.to_owned(),
                        });
                        let is_own = origin.as_deref() == Some(&format!("http://{host_name}"));
                        let mut request = studio.request(method, path).host(host.as_deref());
                        request = proof.add(request, &studio);
                        if let Some(origin) = &origin {
                            request = request.header("Origin", origin);
                        }
                        if let Some(site) = site {
                            request = request.header("Sec-Fetch-Site", site);
                        }
                        if method == "POST" {
                            // The body is invalid, so nothing is done.
                            request = request.body("{\"no\":true}");
                        }
                        let answer = request.send();
                        let has_key = matches!(proof, Proof::Cookie | Proof::Bearer);
                        let says_nothing = origin.is_none() && site.is_none();
                        let from_page = (origin.is_none() || is_own)
                            && match site {
                                None | Some("same-origin") => true,
                                Some("none") => !acts,
                                Some(_) => false,
                            }
                            && !(acts && says_nothing && proof == Proof::Cookie);
                        let may = *is_ours && has_key && from_page;
                        let what = format!(
                            "{method} {path} host {host:?} {proof:?} origin {origin:?} site {site:?}: {}",
                            answer.status
                        );
                        let is_in = !matches!(answer.status, 400 | 401 | 403 | 421)
                            || answer.text().contains("the request body is invalid");
                        assert_eq!(is_in, may, "{what}: {}", answer.text());
                        assert_is_closed(&answer, &what);
                        if !may {
                            assert!(!answer.text().contains("fix-auth"), "{what}");
                        }
                        asked += 1;
                        entered += usize::from(may);
                    }
                }
            }
        }
    }
    assert_eq!(asked, 6 * 8 * 6 * 6 * 5);
    assert!(entered > 100, "{entered}");
    // The origin must be that of the requested host, not the other name of this machine.
    let crossed = studio
        .request("POST", "/api/v1/zombies/reap")
        .host(Some(&format!("localhost:{port}")))
        .bearer(&studio.bearer)
        .header("Origin", &own)
        .body("{}")
        .send();
    assert_eq!(crossed.status, 403);
}

/// Asserts what every response has in common.
fn assert_is_closed(answer: &HttpResponse, what: &str) {
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        // A request that the server itself cannot parse never reaches the middleware.
        if answer.status != 400 || answer.header("content-type").is_some() {
            assert_eq!(answer.header(name), Some(value), "{what}");
        }
    }
    let policy = answer.header("content-security-policy").unwrap_or_default();
    for word in ["unsafe", "http:", "https:", "*"] {
        assert!(!policy.contains(word), "{what}: {policy}");
    }
    let shared = |(name, _): &(String, String)| name.starts_with("access-control-");
    assert!(!answer.headers.iter().any(shared), "{what}");
}

#[test]
fn the_stream_is_for_the_page_alone() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let cookie = format!("teamster-studio-{}={}", studio.port, studio.bearer);
    for path in ["/api/v1/events", "/api/v1/stream"] {
        is_for_the_page_alone(&studio, path, &cookie);
    }
}

fn is_for_the_page_alone(studio: &Studio, path: &str, cookie: &str) {
    let ask = || {
        let request = studio.request("GET", path);
        request.header("Cookie", cookie)
    };
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Site", "none"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("X-Nothing", "x"),
    ] {
        assert_eq!(
            ask().header(name, value).send().status,
            403,
            "{name}: {value}"
        );
    }
    let mut events = ask().header("Sec-Fetch-Site", "same-origin").listen();
    assert_eq!(events.next().unwrap().name, "hello");
}

#[test]
fn the_token_becomes_a_cookie_once_and_is_nowhere_after() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let with = format!("/?token={}", studio.token);
    let foreign = studio.request("GET", &with).host(Some("evil.example"));
    assert_eq!(foreign.send().status, 421, "a foreign host uses nothing up");
    let answer = studio.request("GET", &with).send();
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), Some("/"));
    let cookie = answer.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    assert!(!cookie.contains(&studio.token), "the token is no key");
    let cookie = cookie.split(';').next().unwrap();
    let page = studio.request("GET", "/").header("Cookie", cookie).send();
    assert_eq!(page.status, 200);
    assert!(!page.text().contains(&studio.token));
    assert!(!page.text().contains("<script>"), "no script in the text");
    let again = studio.request("GET", &with).send();
    assert_eq!(again.status, 401, "a token is good once");
    let again = studio.request("GET", &with).header("Cookie", cookie).send();
    assert_eq!(again.status, 303, "it does not stay in the address");
    assert_eq!(again.header("location"), Some("/"));
    // Only the first line that was printed has it; no stored file has.
    let printed = std::fs::read_to_string(&studio.printed).unwrap();
    assert_eq!(printed.matches(&studio.token).count(), 1, "{printed}");
    let memory = project.home().join(".config/teamster/studio.json");
    let kept = std::fs::read_to_string(&memory).unwrap();
    assert!(!kept.contains(&studio.token));
    let mode = std::fs::metadata(&memory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_link_on_another_page_lets_a_browser_in_too() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let with = format!("/?token={}", studio.token);
    let answer = studio
        .request("GET", &with)
        .header("Sec-Fetch-Site", "cross-site")
        .send();
    // The browser would not send the cookie on a redirect that another page began.
    assert_eq!(answer.status, 200);
    assert!(answer.header("set-cookie").is_some());
    assert!(answer.text().contains("url=/\""), "{}", answer.text());
}

#[test]
fn only_json_changes_anything_and_only_through_routes_that_are_there() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let path = "/api/v1/teams/fix-auth/messages";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let mut request = studio.request("POST", path).bearer(&studio.bearer);
        request = request.header("Content-Type", kind);
        assert_eq!(request.send().status, 415, "{kind}");
    }
    let twice = studio
        .request("GET", "/api/v1/teams")
        .bearer(&studio.bearer)
        .header("Host", &format!("127.0.0.1:{}", studio.port));
    assert_eq!(twice.send().status, 400, "two hosts are none");
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let request = studio.request(method, path).bearer(&studio.bearer);
        let status = request.body("{}").send().status;
        assert!(matches!(status, 403..=405), "{method}: {status}");
    }
    let large = json!({ "to": "worker-1", "text": "x".repeat(2_000_000) });
    let answer = studio.post(path, &large);
    assert_eq!(answer.status, 413);
    let sent = project.run(["message", "list", "--json"]).json();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 0);
}

/// The document, the table and the server agree.
#[test]
fn every_route_of_the_document_is_answered() {
    let project = TestProject::with_team();
    project.task("Fix it", &[]);
    let studio = Studio::start(&project);
    let document = studio.json("/api/v1/openapi.json");
    let kept = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/openapi.json"
    ));
    let kept: serde_json::Value = serde_json::from_str(&kept.unwrap()).unwrap();
    assert_eq!(
        document, kept,
        "`cargo xtask docs` writes docs/openapi.json anew"
    );
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 25);
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let path = path
                .replace("{team}", "fix-auth")
                .replace("{task}", "1")
                .replace("{worker}", "worker-1")
                .replace("{branch}", "integration");
            let streams = ["/api/v1/events", "/api/v1/stream"];
            if streams.contains(&path.as_str()) || path.ends_with("/log/stream") {
                let mut events = studio.request("GET", &path).bearer(&studio.bearer).listen();
                assert_eq!(events.next().unwrap().name, "hello");
                continue;
            }
            let answer = match method.as_str() {
                "get" => studio.get(&path),
                _ => studio.post(&path, &json!({ "no": true })),
            };
            let expected: &[u16] = match (method.as_str(), path.as_str()) {
                ("post", _) => &[400],
                // The project of a test is not a repository.
                (_, path) if path.contains("/changes/") || path.ends_with("/diff") => &[404],
                _ => &[200],
            };
            let status = answer.status;
            assert!(
                expected.contains(&status),
                "{method} {path}: {status} {}",
                answer.text()
            );
        }
    }
    assert_eq!(studio.get("/api/v1/nothing").status, 404);
    assert_eq!(studio.get("/api/v1/teams/no-such-team").status, 404);
    assert_eq!(studio.get("/api/v1/teams/..%2f..%2fetc").status, 404);
}
