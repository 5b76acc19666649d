// What a team says to a person, in the page: questions and requests with their forms, the leader's turns, reviews, findings,
// the workers' own words. A real run asks, and is answered from here.

import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BINARY, browser, Place, until, visit, type Seen } from "./kit";
import { show, StartedRun, viewOf } from "./run";

const TEAM = "crew";
let place: Place;
let chrome: Browser;
let seen: Seen;
let page: Page;
let running: StartedRun | null = null;

/** Words that want to be more than words. */
const EVIL = "<img src=x onerror=alert(1)> \u001b[2J\u202e";

beforeAll(async () => {
  place = new Place();
  await place.git({ "README.md": "# Nothing\n" });
  await place.team(TEAM, ["ada", "grace"]);
  for (const subject of ["Serve the page", "Name the port"]) await place.teamster("task", "create", "--team", TEAM, "--subject", subject);
  await place.teamster("task", "claim", "--team", TEAM, "--worker", "ada", "1");
  const finding = { severity: "blocker", path: "src/a.rs", line: 12, claim: "It loses the last row.", evidence: "See the loop.", suggestion: "Count from 0." };
  place.record(TEAM, [
    { type: "run.started", actor: "lead", data: { task: "serve the page", agents: "2:claude", leader: "claude", members: [{ name: "ada", provider: "claude" }, { name: "grace", provider: "codex" }] } },
    { type: "worker.started", actor: "ada", data: {} },
    { type: "question.asked", actor: "ada", taskId: "1", data: { kind: "ask", text: `Which of the two ports?\n${EVIL}`, to: "leader" } },
  ]);
  const asked = place.journal(TEAM).at(-1)?.seq ?? 0;
  place.record(TEAM, [
    { type: "leader.woken", actor: "lead", data: { wake: 1, reasons: [{ kind: "question", about: `q${asked}` }], launch: "x" } },
    { type: "question.forwarded", actor: "leader", data: { question: `q${asked}`, to: "person", reason: "only you can know" } },
    { type: "leader.acted", actor: "leader", data: { wake: 1, actions: 1, notes: ["The person has to choose."] } },
    { type: "agent.event", actor: "ada", taskId: "1", data: { what: "asked", request: "r1", text: "Bash rm -r build" } },
    { type: "question.asked", actor: "grace", taskId: "2", data: { kind: "proposal", text: "", to: "person", proposal: { subject: "Test the port", description: "Nobody does.", paths: ["tests/**"], blockedBy: [] } } },
    { type: "finding.added", actor: "grace", taskId: "2", data: { severity: "minor", path: "README.md", line: 1, claim: `The title says nothing. ${EVIL}`, evidence: "", suggestion: "" } },
    { type: "review.started", actor: "lead", data: { commit: "a".repeat(40), reviewer: "grace", provider: "codex", launch: "y" } },
    { type: "review.finished", actor: "lead", data: { commit: "a".repeat(40), reviewer: "grace", verdict: "changes", findings: [finding], criteria: [{ criterion: "Every row is shown", met: false, evidence: "the last is not" }, { criterion: "It is fast", met: true }], dropped: 1 } },
    { type: "review.started", actor: "lead", data: { commit: "b".repeat(40), since: "a".repeat(40), reviewer: "grace", provider: "codex", launch: "z" } },
    { type: "review.finished", actor: "lead", data: { commit: "b".repeat(40), reviewer: "grace", verdict: "accept", findings: [], criteria: [], dropped: 0 } },
    { type: "candidate.chosen", actor: "lead", taskId: "1", data: { commit: "b".repeat(40), reason: "the fewest changed lines", others: [{ task: "2", ref: "refs/teamster/x", why: "sh test.sh failed" }] } },
  ]);
  await place.open();
  chrome = await browser();
  seen = await visit(chrome, place);
  page = seen.page;
});

afterAll(async () => {
  await running?.stop();
  await chrome?.close();
  await place?.end();
});

const open = (kind: string) => page.locator("[data-question]").filter({ hasText: kind });

test("the list of teams says that somebody waits", async () => {
  await page.getByText("3 to answer").waitFor();
});

test("questions and requests stand above everything else of the team, and are answered there", async () => {
  await show(page, `${TEAM}/team`);
  const question = open("Question");
  await question.getByText("Which of the two ports?").waitFor();
  expect(await question.textContent()).toContain("only you can know");
  expect(await question.textContent()).toContain("<img src=x onerror=alert(1)>");
  // What was written stays when one goes away and comes back.
  await question.getByRole("textbox").fill("the fir");
  await show(page, `${TEAM}/graph`);
  await page.getByText("3 questions wait for you").waitFor();
  await page.getByRole("link", { name: "Answer" }).click();
  await open("Question").getByRole("textbox").press("End");
  await page.keyboard.type("st");
  await page.keyboard.press("Control+Enter");
  await page.getByText("ada has your answer.").waitFor();
  await until("the answer in the journal", () => place.journal(TEAM).some(({ type, data }) => type === "question.answered" && (data as { answer: string }).answer === "the first"));
  await until("the question is gone", async () => (await open("Which of the two").count()) === 0);

  await open("Proposed task").getByRole("button", { name: "Create this task" }).click();
  await page.getByText("Created task 3.").waitFor();
  const request = page.locator("[data-request=r1]");
  await request.getByText("Bash rm -r build").waitFor();
  await request.getByRole("textbox").fill("not now");
  await request.getByRole("button", { name: "Deny" }).click();
  await page.getByText("Denied.", { exact: true }).waitFor();
  const sent = place.journal(TEAM).filter(({ data }) => (data as { messageType?: string }).messageType === "permission_answer");
  expect(sent).toHaveLength(1);
  expect(sent[0]?.["data"]).toMatchObject({ content: "not now", extra: { requestId: "r1", allow: false } });
});

test("who is late is told who was first", async () => {
  place.record(TEAM, [{ type: "question.asked", actor: "grace", taskId: "2", data: { kind: "ask", text: "Tabs or spaces?", to: "person" } }]);
  const id = `q${place.journal(TEAM).at(-1)?.seq}`;
  await show(page, `${TEAM}/run`);
  await open("Tabs or spaces?").getByRole("textbox").fill("tabs");
  // Somebody else answers while the page's answer is on its way.
  await page.route("**/questions/*", async (route) => {
    await place.teamster("answer", id, "spaces", "--team", TEAM);
    await route.continue();
  });
  await open("Tabs or spaces?").getByRole("button", { name: "Answer" }).click();
  await page.getByText(/user answered first: spaces/).waitFor();
  await page.unroute("**/questions/*");
  await page.locator(`[data-answered=${id}]`).getByText("spaces", { exact: true }).waitFor();
});

test("the run shows the leader's turns, reviews with lines, findings and the choice", async () => {
  await show(page, `${TEAM}/run`);
  const leader = page.getByRole("region", { name: "Leader" });
  await leader.getByText("The person has to choose.").waitFor();
  expect(await leader.textContent()).toContain("only you can know");
  const first = page.locator(`[data-review="${"a".repeat(40)}"]`);
  await first.getByText("src/a.rs:12").waitFor();
  for (const words of ["asks for changes", "blocker", "It loses the last row.", "See the loop.", "Count from 0.", "1 of 2 met", "the last is not", "1 findings were dropped"]) expect(await first.textContent()).toContain(words);
  const second = page.locator(`[data-review="${"b".repeat(40)}"]`);
  expect(await second.textContent()).toContain("what changed since aaaaaaa");
  expect(await page.getByRole("region", { name: "Found by the team" }).textContent()).toContain("README.md:1");
  expect(await page.getByRole("region", { name: "Chosen result" }).textContent()).toContain("sh test.sh failed");
  await page.keyboard.press("l");
  await page.getByRole("region", { name: "리더" }).waitFor();
  await page.keyboard.press("l");
});

test("the past has its questions as they were", async () => {
  const asked = place.journal(TEAM).find(({ type }) => type === "question.asked")?.seq ?? 0;
  await show(page, `${TEAM}/run?at=${asked}`);
  await page.reload();
  await open("Which of the two ports?").waitFor();
  expect(await open("Which of the two ports?").textContent()).toContain("The leader is asked");
  expect(await open("Which of the two ports?").getByRole("button", { name: "Answer" }).isDisabled()).toBe(true);
  await page.keyboard.press("n");
});

test("a real worker asks, the page answers, and its words are at the gate", async () => {
  const script = place.write("../agent.sh", `cat > /dev/null
${BINARY} ask 'Which colour?' > colour.txt
printf '%s\\n' '\`\`\`teamster' '{"status":"done","summary":"I wrote the colour. I could not test it.","handover":"It is in colour.txt.","problems":["There is no test."]}' '\`\`\`'
`);
  const run = new StartedRun(place, "real", ["1:w", "name the colour", "--provider", `w=command:sh ${script}`, "--leader", "engine", "--review", "off", "--verify", "true"]);
  running = run;
  await run.until("a question", () => run.events("question.asked").length === 1);
  await show(page, "real/team");
  await open("Which colour?").waitFor();
  await until("the worker waits", async () => (await viewOf(place, "real")).workers[0]?.status === "waiting for an answer");
  await page.locator("[data-worker=worker-1]").getByText("waiting for an answer").waitFor();
  await open("Which colour?").getByRole("textbox").fill("blue");
  await open("Which colour?").getByRole("button", { name: "Answer" }).click();
  await run.gate();
  await show(page, "real/approval");
  const said = page.getByRole("region", { name: "Worker reports" });
  await said.getByText("There is no test.").waitFor();
  expect(await said.textContent()).toContain("“I could not test it.”");
  await show(page, "real/approval?task=1");
  const panel = page.getByRole("dialog");
  await panel.getByText("It is in colour.txt.").waitFor();
  expect(await panel.textContent()).toContain("There is no test.");
  expect(await panel.textContent()).toContain("blue");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
  expect(await run.ended, run.printed).toBe(0);
  expect(readFileSync(`${place.project}/colour.txt`, "utf8")).toContain("blue");
  expect(seen.errors).toEqual([]);
});

/** A task that is done, one that fails for good, and one that waits for it. */
const GATED = {
  verify: ["test -e never.txt"],
  tasks: [
    { id: "news", subject: "Write news" },
    { id: "never", subject: "Do what cannot be done" },
    { id: "after", subject: "Go on from there", blockedBy: ["never"] },
  ],
};
const gatedScript = (project: string) => `
[[step]]
task = "news"
do = "run"
command = "git -C ${project} branch aside"
[[step]]
task = "news"
do = "edit"
path = "news.txt"
content = "one\\n"

[[step]]
task = "never"
do = "run"
command = "git init --quiet sub && git -C sub -c user.name=n -c user.email=e commit --quiet --allow-empty --message Sub"
`;

/** The English sentences of a part of a view that have a code. */
function sentences(part: unknown): string[] {
  if (Array.isArray(part)) return part.flatMap(sentences);
  if (part === null || typeof part !== "object") return [];
  const own = part as Record<string, unknown>;
  const told = ["verification", "words", "refused", "why", "reason", "references", "evidence"].flatMap((key) => {
    const codes = own[`${key.replace(/references/, "reference")}Codes`] as { code: string }[] | undefined;
    if (!codes || codes.some(({ code }) => code === "verbatim")) return [];
    return ([own[key]].flat() as (string | null)[]).filter((text) => typeof text === "string" && text !== "") as string[];
  });
  return [...told, ...Object.values(own).flatMap(sentences)];
}

test("a Korean page of a gate has no English sentence of the server", async () => {
  const plan = place.write("../gated.json", JSON.stringify(GATED));
  const played = place.write("../gated.toml", gatedScript(place.project));
  // It is not committed, and the work would write over it.
  place.write("news.txt", "my own news\n");
  const run = new StartedRun(place, "gated", ["2:w", "news", "--provider", `w=scripted:${played}`, "--plan", plan, "--verify", "true", "--review", "require"]);
  running = run;
  const { commit } = await run.gate();
  await place.teamster("approve", "--team", "gated", "--commit", commit).catch(() => undefined);
  await run.gate(2);
  await run.ended;
  const korean = await visit(chrome, place, { locale: "ko-KR" });
  const main = async () => (await korean.page.locator("main").innerText()).replace(/\s+/g, " ");
  await show(korean.page, "gated/approval");
  await korean.page.getByText("완전히 검증되지 않음: 검사 2개 중").waitFor();
  let text = await main();
  for (const words of ["작업 전과 같이 실패", "작업 2 완료를 기다림", "브랜치 aside: 새로 생김", "main 브랜치가 변경되지 않았습니다", "검토할 수 있는 에이전트 없음"]) expect(text).toContain(words);
  const stages = korean.page.locator("ol.way");
  expect(await stages.getAttribute("title")).toBe("팀 때문에 실패한 검사 없음");
  await show(korean.page, "gated/run");
  await korean.page.locator("[data-review]").first().waitFor();
  text += ` ${await main()}`;
  await show(korean.page, "gated/team");
  await korean.page.getByText("결과가 결정을 기다립니다").waitFor();
  text += ` ${await main()} ${await korean.page.locator("[title]").evaluateAll((all) => all.map((one) => one.getAttribute("title")).join(" "))}`;
  const { approval, reviews, run: told, workers, wakes } = await viewOf(place, "gated");
  const english = sentences([approval, reviews, told, workers, wakes]);
  expect(english).toEqual(expect.arrayContaining(["not every check passed", "no agent that can review", "no new failures; what fails is flaky or failed before the work began", "it waits for 2"]));
  // What is one word, such as `failed`, may be another one's word as well.
  const left = english.filter((sentence) => sentence.includes(" ")).filter((sentence) => text.includes(sentence.replace(/\s+/g, " ")));
  expect(left).toEqual([]);
  expect(korean.errors).toEqual([]);
  await korean.page.context().close();
  await run.stop();
});

const PLANNED = {
  analysis: "The port stands in two files.",
  assumptions: ["Nobody needs port 80."],
  risks: ["A firewall may be in the way."],
  tasks: [
    { id: "name", subject: "Name the port", owner: "worker-1", accept: ["The name is in one file."], paths: ["src/**"] },
    { id: "test", subject: "Test the port", blockedBy: ["name"] },
  ],
};

test("a proposed plan is a table and a graph, and is revised, edited and accepted in the page", async () => {
  const leader = place.write("../boss.sh", `cat > ${place.root}/asked
printf '%s\n' '${JSON.stringify(PLANNED)}'
`);
  const agent = place.write("../worker.sh", "cat > /dev/null\necho done > done-$TEAMSTER_TASK_ID.txt\necho done\n");
  const run = new StartedRun(place, "planned", ["1:w", "name the port", "--provider", `w=command:sh ${agent}`, "--provider", `boss=command:sh ${leader}`, "--leader", "boss", "--approve-plan", "--review", "off", "--verify", "true"]);
  running = run;
  const proposals = () => run.events("plan.proposed");
  await run.until("a plan", () => proposals().length === 1);
  const gate = page.getByRole("region", { name: "Proposed plan" });
  await show(page, "planned/team");
  await page.getByRole("status").filter({ hasText: "A plan waits for your decision" }).getByRole("link").waitFor();
  await show(page, "planned/approval");
  await gate.getByText("A plan waits for your decision").waitFor();
  await show(page, "planned/run");
  await gate.getByText("A plan waits for your decision").waitFor();
  for (const words of ["The port stands in two files.", "Nobody needs port 80.", "A firewall may be in the way.", "The name is in one file.", "src/**"]) expect(await gate.textContent()).toContain(words);
  expect(await gate.locator("tbody tr").count()).toBe(2);
  expect(await gate.locator("svg rect").count()).toBe(2);
  await show(page, "#/");
  await page.getByText("1 to answer").first().waitFor();
  await show(page, "planned/run");

  await gate.getByRole("button", { name: "Ask for changes" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("fewer words");
  await page.keyboard.press("Control+Enter");
  await run.until("another plan", () => proposals().length === 2);
  expect(readFileSync(`${place.root}/asked`, "utf8")).toContain("fewer words");

  // A text with a fault is refused beside it, and can be mended.
  await gate.getByText("revision 2").waitFor();
  await gate.getByRole("button", { name: "Edit as text" }).click();
  const dialog = page.getByRole("dialog");
  const text = dialog.getByRole("textbox");
  expect(await text.inputValue()).toContain("Name the port");
  await text.fill(JSON.stringify({ tasks: [{ id: "a", subject: "A", blockedBy: ["nobody"] }] }, null, 2));
  await dialog.getByRole("button", { name: "Edit as text" }).click();
  await dialog.getByRole("alert").getByText(/nobody/).waitFor();
  await text.fill(JSON.stringify({ tasks: [{ id: "a", subject: "Name it by hand" }] }, null, 2));
  await dialog.getByRole("button", { name: "Edit as text" }).click();
  await run.until("the person's plan", () => proposals().length === 3);
  await gate.getByText("Name it by hand").first().waitFor();
  await gate.getByRole("button", { name: "Accept" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Accept" }).click();
  await run.until("the task", () => run.events("task.created").some(({ data }) => JSON.stringify(data).includes("Name it by hand")));
  await run.gate();
  expect(seen.errors).toEqual([]);
});
