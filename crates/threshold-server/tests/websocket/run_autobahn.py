"""Run PyPI autobahntestsuite (Python 2 source) as a fuzzing client on Python 3.11.

The installed package is left as it is: its modules are converted while they are
imported (lib2to3 plus the few replacements below).  Python 2 `str` payloads become
latin-1 `str`, turned into bytes where they enter autobahn's protocol class.
Use: python wstest3.py SPEC.json     exit: 0 all passed, 1 some case failed, 2 tool error
"""
import builtins, binascii, functools, importlib.abc, importlib.machinery, importlib.util
import json, os, re, sys, types, warnings
warnings.simplefilter("ignore")
from lib2to3.refactor import RefactoringTool

PKG = os.path.join(os.path.dirname(importlib.util.find_spec("autobahn").origin), "..", "autobahntestsuite")
PKG = os.path.normpath(PKG)
FIXERS = ["lib2to3.fixes.fix_" + f for f in ("print", "except", "has_key", "raise", "xrange", "import")]
REPLACE = [("(object, Case, )", "(Case, )"), ("binascii.b2a_hex(", "_b2a_hex("),
           ("v.validate(vss[:i])", "v.validate(vss[:i].encode('latin-1'))"),
           ("len(self.payload) / self.p", "len(self.payload) // self.p"),
           ("from twisted.internet import reactor, ssl", "from twisted.internet import reactor"),
           ("from case9_9_1 import *", ""),      # not in the case list, needs old zope
           (", pkg_resources", "")]

def to_bytes(x): return x.encode("latin-1") if isinstance(x, str) else x
def to_str(x): return x.decode("latin-1") if isinstance(x, bytes) else x
builtins._b2a_hex = lambda x: binascii.b2a_hex(to_bytes(x)).decode()

class Loader(importlib.machinery.SourceFileLoader):
    tool = RefactoringTool(FIXERS)
    def get_code(self, fullname):
        src = open(self.path, encoding="latin-1", newline=None).read() + "\n"
        for a, b in REPLACE:
            src = src.replace(a, b)
        src = str(self.tool.refactor_string(src, self.path))
        return compile(src, self.path, "exec", dont_inherit=True)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if not name.startswith("autobahntestsuite."):
            return None
        base = os.path.join(PKG, *name.split(".")[1:])
        if os.path.isdir(base):
            f = os.path.join(base, "__init__.py")
            return importlib.util.spec_from_file_location(name, f, loader=Loader(name, f), submodule_search_locations=[base])
        return importlib.util.spec_from_file_location(name, base + ".py", loader=Loader(name, base + ".py"))

sys.meta_path.insert(0, Finder())
top = types.ModuleType("autobahntestsuite")
top.__path__, top.version = [PKG], "25.10.1"
sys.modules["autobahntestsuite"] = top
# cases 12.* and 13.* (permessage-deflate) are left out
c12 = types.ModuleType("autobahntestsuite.case.case12_x_x")
c12.__all__ = ["Case12_X_X", "Case12_X_X_CaseSubCategories", "Case13_X_X", "Case13_X_X_CaseSubCategories"]
c12.Case12_X_X, c12.Case13_X_X, c12.Case12_X_X_CaseSubCategories, c12.Case13_X_X_CaseSubCategories = [], [], {}, {}
sys.modules[c12.__name__] = c12
rep = types.ModuleType("autobahntestsuite.report")      # only used for HTML, needs jinja2
rep.CSS_COMMON = rep.CSS_DETAIL_REPORT = rep.CSS_MASTER_REPORT = rep.JS_MASTER_REPORT = ""
sys.modules[rep.__name__] = rep

import autobahn, txaio
txaio.use_twisted()
if not hasattr(autobahn, "version"):
    autobahn.version = autobahn.__version__
from autobahntestsuite import fuzzing
from autobahntestsuite.case import Case
from twisted.internet import reactor
from twisted.python import log

Case.compare = lambda self, a, b: a == b      # Python 2 compared pickles
fuzzing.ssl = types.SimpleNamespace(ClientContextFactory=lambda: None)
fuzzing.json = types.SimpleNamespace(loads=json.loads, dumps=functools.partial(json.dumps, default=lambda o: to_str(o) if isinstance(o, bytes) else repr(o)))
def asciiLogData(data, maxlen=64, replace=False):
    data = to_bytes(data)
    cut = data[:maxlen] + b" ..." if len(data) > maxlen - 4 else data
    try:
        return cut.decode("utf8", "replace" if replace else "strict")
    except UnicodeDecodeError:
        return "0x" + fuzzing.binLogData(data, maxlen)
fuzzing.asciiLogData = asciiLogData

# A case gives up on an answer after a second, which says nothing on a machine that does other things meanwhile.
# Nothing waits for these where the answer comes.
PATIENCE = 30

class Protocol(fuzzing.FuzzingClientProtocol):
    def killAfter(self, delay): return super().killAfter(delay * PATIENCE)
    def sendFrame(self, opcode, payload=b"", fin=True, rsv=0, mask=None, payload_len=None, chopsize=None, sync=False):
        payload = to_bytes(payload)
        if payload_len is not None:
            payload = (payload * (payload_len // len(payload) + 1))[:payload_len]
        return super().sendFrame(opcode, payload, fin, rsv, mask, None, chopsize, sync)
    def sendMessage(self, payload, *a, **k): return super().sendMessage(to_bytes(payload), *a, **k)
    def sendMessageFrameData(self, payload, *a, **k): return super().sendMessageFrameData(to_bytes(payload), *a, **k)
    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        return super().sendCloseFrame(code, to_bytes(reasonUtf8), isReply)
    def onMessage(self, payload, isBinary): return super().onMessage(to_str(payload), isBinary)
    def onPong(self, payload): return super().onPong(to_str(payload))
    def logRxFrame(self, header, payload): return super().logRxFrame(header, [to_str(b"".join(payload))])
fuzzing.FuzzingClientProtocol = Protocol

class Factory(fuzzing.FuzzingClientFactory):
    noisy = False
    def setSessionParameters(self, *a, **k):
        if not a:                             # "headers" of a server in the spec
            k["headers"] = self.spec["servers"][self.currServer].get("headers")
        return super().setSessionParameters(*a, **k)
    def nextServer(self):
        more = super().nextServer()
        self.setProtocolOptions(openHandshakeTimeout=PATIENCE, closeHandshakeTimeout=PATIENCE,
                                serverConnectionDropTimeout=PATIENCE)
        return more
    def createReports(self): return super().createReports(produceHtml=False)

errors = []
def observe(e):
    if e.get("isError"):
        errors.append(e)
        sys.stderr.write(log.textFromEventDict(e) + "\n")
log.addObserver(observe)

spec = json.load(open(sys.argv[1]))
spec.setdefault("cases", ["*"])
factory = None
def start():
    global factory
    try:
        factory = Factory(spec)
    except Exception:
        log.err()
        reactor.stop()
reactor.callLater(float(spec.get("deadline", 800)), reactor.stop)
reactor.callWhenRunning(start)
reactor.run()
bad = ran = 0
tally = {}
for agent, cases in (factory.agents if factory else {}).items():
    for cid, c in sorted(cases.items(), key=lambda kv: [int(n) for n in kv[0].split(".")]):
        ran += 1
        b, bc = c["behavior"], c["behaviorClose"]
        tally[b] = tally.get(b, 0) + 1
        fail = b not in ("OK", "NON-STRICT", "INFORMATIONAL") or bc not in ("OK", "INFORMATIONAL")
        bad += fail
        if fail or b != "OK":
            print("%-8s %-14s close=%-14s code=%s %s" % (cid, b, bc, c["remoteCloseCode"], c["result"]))
want = len(factory.specCases) * len(spec["servers"]) if factory else 0
print("cases wanted %d, run %d, failed %d, %s, tool errors %d" % (want, ran, bad, tally, len(errors)))
sys.exit(2 if errors or ran != want or not ran else 1 if bad else 0)
