# What the tests run in workerd: the same modules that are deployed, on a disk.
#
#   workerd serve config.capnp CONSTANT --socket-addr http=127.0.0.1:PORT --directory-path storage=FOLDER

using Workerd = import "/workerd/workerd.capnp";

# As it is deployed, but for the token.
const deployed :Workerd.Config = (
  services = [(name = "main", worker = .worker), .storage],
  sockets = [.http],
);

# Takes the time from who asks.
const timed :Workerd.Config = (
  services = [(name = "main", worker = .timedWorker), .storage],
  sockets = [.http],
);

# As it is deployed, with what the tests ask from inside.
const tested :Workerd.Config = (
  services = [(name = "main", worker = .testedWorker), .storage],
  sockets = [.http],
);

# What decisions are measured against.
const constant :Workerd.Config = (
  services = [(name = "main", worker = .constantWorker), .storage],
  sockets = [.http],
);

const storage :Workerd.Service = (name = "storage", disk = (writable = true));
const http :Workerd.Socket = (name = "http", http = (), service = "main");

const worker :Workerd.Worker = (
  modules = .modules,
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [(className = "ThresholdObject", uniqueKey = "threshold", enableSql = true)],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [.objects, .token],
);

const timedWorker :Workerd.Worker = (
  modules = .modules,
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [(className = "ThresholdObject", uniqueKey = "threshold", enableSql = true)],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [.objects, .token, (name = "TEST_CLOCK", text = "allowed")],
);

const testedWorker :Workerd.Worker = (
  modules = [
    (name = "test/inside.js", esModule = embed "inside.js"),
    (name = "src/worker.js", esModule = embed "../src/worker.js"),
    (name = "src/object.js", esModule = embed "../src/object.js"),
    (name = "src/states.js", esModule = embed "../src/states.js"),
    (name = "src/group.js", esModule = embed "../src/group.js"),
    (name = "src/cells.js", esModule = embed "../src/cells.js"),
    (name = "src/lists.js", esModule = embed "../src/lists.js"),
    (name = "src/wide.js", esModule = embed "../src/wide.js"),
    (name = "src/request.js", esModule = embed "../src/request.js"),
    (name = "src/limiter.js", esModule = embed "../src/limiter.js"),
    (name = "src/limit.js", esModule = embed "../src/limit.js"),
    (name = "src/rate.js", esModule = embed "../src/rate.js"),
    (name = "src/key.js", esModule = embed "../src/key.js"),
  ],
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [(className = "ThresholdObject", uniqueKey = "threshold", enableSql = true)],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [
    .objects,
    .token,
    (name = "THRESHOLD_SECRET", text = "a secret"),
    (name = "TEST_CLOCK", text = "allowed"),
  ],
);

const constantWorker :Workerd.Worker = (
  modules = [(name = "test/constant.js", esModule = embed "constant.js")],
  compatibilityDate = "2026-10-01",
  durableObjectNamespaces = [(className = "Constant", uniqueKey = "constant", enableSql = true)],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [(name = "CONSTANT", durableObjectNamespace = "Constant")],
);

const objects :Workerd.Worker.Binding = (name = "THRESHOLD", durableObjectNamespace = "ThresholdObject");
const token :Workerd.Worker.Binding = (name = "THRESHOLD_TOKEN", text = "secret");

const modules :List(Workerd.Worker.Module) = [
  (name = "src/worker.js", esModule = embed "../src/worker.js"),
  (name = "src/object.js", esModule = embed "../src/object.js"),
  (name = "src/states.js", esModule = embed "../src/states.js"),
  (name = "src/group.js", esModule = embed "../src/group.js"),
  (name = "src/cells.js", esModule = embed "../src/cells.js"),
  (name = "src/lists.js", esModule = embed "../src/lists.js"),
  (name = "src/wide.js", esModule = embed "../src/wide.js"),
  (name = "src/request.js", esModule = embed "../src/request.js"),
];
