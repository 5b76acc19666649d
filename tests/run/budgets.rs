//! The budget of a run: it is exceeded by at most one turn of each worker, and can be raised.

use teamster_testkit::RunCmd;

use super::Shop;

const TURN: u64 = 500;
const WORKERS: u64 = 2;

fn spent(shop: &Shop) -> u64 {
    let figure = |event: &serde_json::Value, key: &str| event["data"][key].as_u64().unwrap_or(0);
    let usage = shop.events_of("usage");
    let of_one = |event| figure(event, "tokensIn") + figure(event, "tokensOut");
    usage.iter().map(of_one).sum()
}

#[test]
fn tokens_that_are_used_up_stop_the_run_and_more_of_them_let_it_go_on() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let script = shop.script(
        "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_TASK_ID > part-$TEAMSTER_TASK_ID.txt\"\n\
         [[step]]\ndo = \"usage\"\ntokens_in = 400\ntokens_out = 100\nusd = 0.01\n\
         [[step]]\ndo = \"sleep\"\nseconds = 0.2\n",
    );
    // Six tasks of one turn each.
    let plan = shop.parts(6);
    let budget = 1_200;
    let args = RunCmd::new("shop", "2:w", "all parts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    let limit = budget.to_string();
    let ran = shop.call(args.more(&["--budget-tokens", &limit])).run();
    let ran = ran.exits(12);
    assert!(ran.stderr.contains("budget"), "{}", ran.stderr);
    let used = spent(&shop);
    assert!(used > 0 && used <= budget + WORKERS * TURN, "{used}");
    assert_eq!(shop.events_of("budget.exhausted").len(), 1);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
    assert!(shop.report().contains("1,200"), "{}", shop.report());
    assert_eq!(shop.state_file(".party/session.json")["phase"], "FAILED");
    // The same budget is still used up.
    shop.run(&["run", "--resume", "shop"]).exits(12);
    assert_eq!(spent(&shop), used);
    let more = ["run", "--resume", "shop", "--budget-tokens", "100000"];
    shop.run(&more).exits(0);
    assert_eq!(spent(&shop), 6 * TURN);
    assert_eq!(shop.stage(), "complete");
    let claimed = shop.events_of("task.completed").len();
    assert_eq!(claimed, 6, "nothing was done twice");
    assert_eq!(shop.state_file(".party/session.json")["phase"], "DONE");
    shop.has_drafts();
    shop.is_quiet();
}

#[test]
fn minutes_are_counted_over_all_hosts_and_more_of_them_let_it_go_on() {
    let shop = Shop::in_use();
    let script = "[[step]]\ndo = \"run\"\ncommand = \"echo half > half.txt; until test -e ROOT/go; do sleep 0.05; done\"\n";
    let more = [
        "--approve",
        "auto",
        "--verify",
        "true",
        "--budget-minutes",
        "0.06",
    ];
    shop.scripted_run(script, &more).run().exits(12);
    shop.is_quiet();
    std::fs::write(shop.aside().join("go"), "").unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(12);
    shop.run(&["run", "--resume", "shop", "--budget-minutes", "10"])
        .exits(0);
    assert_eq!(shop.stage(), "complete");
    assert_eq!(shop.git(&["show", "main:half.txt"]), "half");
    shop.has_drafts();
    shop.is_quiet();
}

#[test]
fn budget_without_room_for_another_task_says_so_in_figures() {
    let shop = Shop::in_use();
    let script = shop.script(
        "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_TASK_ID > part-$TEAMSTER_TASK_ID.txt\"\n\
         [[step]]\ndo = \"usage\"\ntokens_in = 600\ntokens_out = 100\n",
    );
    let plan = shop.parts(3);
    let args = RunCmd::new("shop", "1:w", "all parts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    let ran = shop.call(args.more(&["--budget-tokens", "2000"])).run();
    let ran = ran.exits(12);
    let why = "the budget has no room for another task: 1,400 tokens used of 2,000 tokens; 600 tokens are left, and a task \
               took 700 tokens on average";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    let event = &shop.events_of("budget.exhausted")[0]["data"];
    assert_eq!(
        (&event["used"], &event["next"]),
        (&1_400.0.into(), &700.0.into())
    );
    assert!(shop.report().contains("1,400 tokens used of 2,000 tokens"));
}
