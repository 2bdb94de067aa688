//! Files whose programs are asked whether they can be used.

use std::path::Path;
use std::process::Command;

use threshold_testkit::folder::Folder;

use super::{file, root};

/// Runs `program`, from the path or from the tools of the tests, in the folder `deploy`; what it said, if it ended well.
fn runs(program: &str, arguments: &[&str]) -> String {
    let tool = root().join("target/tools").join(program);
    let program = if tool.exists() { tool } else { Path::new(program).to_owned() };
    let ran = Command::new(&program).args(arguments).current_dir(root().join("deploy")).output();
    let ran = ran.unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo xtask test setup` installs it", program.display())
    });
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{} {arguments:?}: {said}", program.display());
    said
}

#[test]
fn envoy_takes_its_file() {
    assert!(runs("envoy/bin/envoy", &["--mode", "validate", "-c", "envoy.yaml"]).contains("'envoy.yaml' OK"));
}

/// Istio itself is not asked: its filter is the one that Envoy takes, but for the name of the cluster.
#[test]
fn istio_is_given_the_filter_that_envoy_takes() {
    const COMPARES: &str = "
import yaml
envoy, istio = (yaml.safe_load(open(name)) for name in ('envoy.yaml', 'istio.yaml'))
manager = envoy['static_resources']['listeners'][0]['filter_chains'][0]['filters'][0]['typed_config']
ours = manager['http_filters'][0]
theirs, host = (patch['patch']['value'] for patch in istio['spec']['configPatches'])
ours['typed_config']['rate_limit_service']['grpc_service'] = None
service = theirs['typed_config']['rate_limit_service'].pop('grpc_service')
theirs['typed_config']['rate_limit_service']['grpc_service'] = None
assert theirs == ours, (theirs, ours)
assert service['envoy_grpc']['cluster_name'] == 'outbound|8081||threshold.threshold.svc.cluster.local'
assert host['rate_limits'][0] == manager['route_config']['virtual_hosts'][0]['rate_limits'][0]
";
    runs("deploy/bin/python", &["-c", COMPARES]);
}

#[test]
fn the_unit_is_sound_and_has_few_rights() {
    let folder = Folder::new();
    let unit = folder.path().join("threshold.service");
    let here = file("threshold.service").replace("/usr/local/bin/threshold", env!("CARGO_BIN_EXE_threshold"));
    std::fs::write(&unit, here).unwrap();
    let unit = unit.to_str().unwrap();
    assert_eq!(runs("systemd-analyze", &["verify", "--man=no", unit]), "", "nothing to complain about");
    // In tenths, from 0 to 100: the fewer the better.
    runs("systemd-analyze", &["security", "--no-pager", "--offline=true", "--threshold=15", unit]);
}

#[test]
fn kubernetes_knows_every_field() {
    runs("deploy/bin/kubernetes-validate", &["--strict", "kubernetes.yaml"]);
}

#[test]
fn the_policy_for_kubernetes_can_be_used() {
    const PRINTS: &str = "
import yaml
documents = yaml.safe_load_all(open('kubernetes.yaml'))
print(next(one for one in documents if one['kind'] == 'ConfigMap')['data']['policy.toml'])
";
    let folder = Folder::new();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, runs("deploy/bin/python", &["-c", PRINTS])).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_threshold"));
    check.args(["check", "--strict"]).arg(&policy).env("THRESHOLD_STORE", "postgres://a@b/c");
    check.env("THRESHOLD_SECRET", "0123456789abcdef0123456789abcdef");
    let ran = check.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("can be used; 2 limits, 0 warnings"), "{said}");
}

#[test]
fn the_dockerfile_is_sound() {
    assert_eq!(runs("deploy/bin/hadolint", &["Dockerfile"]), "");
}

/// No Traefik is at hand: its file is read as YAML, and no more.
#[test]
fn traefik_is_told_not_to_believe_clients() {
    const READS: &str = "
import yaml
asked = yaml.safe_load(open('traefik.yaml'))['http']['middlewares']['threshold']['forwardAuth']
assert asked == {'address': 'http://127.0.0.1:8082/v1/forward-auth', 'trustForwardHeader': False}, asked
";
    runs("deploy/bin/python", &["-c", READS]);
}
