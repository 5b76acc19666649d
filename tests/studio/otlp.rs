//! A collector gets the same metrics as Prometheus: OTLP over HTTP, as JSON.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use super::facts::in_the_middle;
use super::{Studio, wait_for};

/// Receives one message, and answers with this status. Returns the path and the body.
fn receive(listener: &TcpListener, status: &str) -> (String, Value) {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(super::PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().unwrap(),
            Some(("Content-Type", value)) => assert_eq!(value, "application/json"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    let path = first.split(' ').nth(1).unwrap().to_owned();
    (path, serde_json::from_slice(&body).unwrap())
}

/// Returns a message in the form for Prometheus, unordered.
fn as_lines(message: &Value) -> BTreeSet<String> {
    let metrics = &message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let mut lines = BTreeSet::new();
    for metric in metrics.as_array().unwrap() {
        let name = metric["name"].as_str().unwrap();
        lines.insert(format!(
            "# HELP {name} {}",
            metric["description"].as_str().unwrap()
        ));
        for point in metric["gauge"]["dataPoints"].as_array().unwrap() {
            let nanos: u64 = point["timeUnixNano"].as_str().unwrap().parse().unwrap();
            assert!(nanos > 1_700_000_000_000_000_000);
            let labels = point["attributes"].as_array().unwrap().iter();
            let labels: Vec<String> = labels
                .map(|label| {
                    format!(
                        "{}={}",
                        label["key"].as_str().unwrap(),
                        label["value"]["stringValue"]
                    )
                })
                .collect();
            let labels = match labels.as_slice() {
                [] => String::new(),
                labels => format!("{{{}}}", labels.join(",")),
            };
            let value = match (&point["asInt"], &point["asDouble"]) {
                (Value::String(count), Value::Null) => count.clone(),
                (Value::Null, Value::Number(amount)) => amount.to_string(),
                other => panic!("{other:?}"),
            };
            lines.insert(format!("{name}{labels} {value}"));
        }
    }
    lines
}

#[test]
fn a_collector_gets_what_prometheus_gets_and_one_that_fails_disturbs_nobody() {
    let project = in_the_middle();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    project.write(
        ".teamster/config.toml",
        &format!("[studio]\notlp = \"http://{address}/otel\"\notlp_every = \"1s\"\n"),
    );
    let studio = Studio::start(&project);
    // The collector is down, then refuses, then accepts.
    receive(&listener, "503 Service Unavailable");
    let lines = wait_for("the same figures in both places", || {
        let (path, message) = receive(&listener, "200 OK");
        assert_eq!(path, "/otel/v1/metrics");
        let resource = message["resourceMetrics"][0]["resource"].to_string();
        assert!(
            resource.contains("\"service.name\"") && resource.contains("teamster"),
            "{resource}"
        );
        let sent = as_lines(&message);
        let metrics = studio.get("/metrics").text();
        let scraped = metrics.lines().filter(|line| !line.starts_with("# TYPE"));
        let scraped: BTreeSet<String> = scraped.map(str::to_owned).collect();
        (sent == scraped).then_some(sent)
    });
    for line in [
        "teamster_tokens{team=\"fix-auth\"} 1750",
        "teamster_cost_usd{team=\"fix-auth\"} 0.5",
        "teamster_tasks{team=\"fix-auth\",status=\"completed\"} 1",
    ] {
        assert!(lines.contains(line), "{line} is not in {lines:?}");
    }
    let all = lines.into_iter().collect::<String>();
    for text in ["Find the cause", "How is it?", "Fix the login"] {
        assert!(
            !all.contains(text),
            "only figures and names are sent: {text}"
        );
    }
}

#[test]
fn nothing_is_sent_unless_it_is_wanted_and_https_is_refused_in_words() {
    let project = in_the_middle();
    let shown = project.run(["config", "show", "--json"]).succeeds().stdout;
    assert!(
        shown.contains("\"studio.otlp\"") && shown.contains("\"off\""),
        "{shown}"
    );
    project.write(
        ".teamster/config.toml",
        "studio.otlp = \"https://collector.example\"\n",
    );
    let ran = project.run(["status"]).fails(2);
    assert!(
        ran.stderr.contains("https") && ran.stderr.contains("studio.otlp"),
        "{}",
        ran.stderr
    );
}
