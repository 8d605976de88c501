"""Correct programs that a judge of code has called wrong, or could: they end, read and write in unusual ways."""

from __future__ import annotations

from typing import Any

__all__ = ["ODD_PROGRAMS"]

ADD = {"cases": [["1\n", "2\n"], ["41\n", "42\n"]]}
NEXT = {"call": "solve", "cases": [[[1], 2], [[41], 42]]}

SCRIPTS = {
    "exit": "print(int(input())+1)\nexit()",
    "quit": "print(int(input())+1)\nquit()",
    "exit0": "print(int(input())+1)\nexit(0)",
    "sys.exit": "import sys\nprint(int(input())+1)\nsys.exit()",
    "sys.exit0": "import sys\nprint(int(input())+1)\nsys.exit(0)",
    "SystemExit": "print(int(input())+1)\nraise SystemExit",
    "os._exit flush": "import os\nprint(int(input())+1, flush=True)\nos._exit(0)",
    "os.write": "import os\nos.write(1, str(int(os.read(0,100))+1).encode())",
    "/dev/stdin": "print(int(open('/dev/stdin').read())+1)",
    "/dev/fd/0": "print(int(open('/dev/fd/0').read())+1)",
    "pathlib devstdin": "import pathlib\nprint(int(pathlib.Path('/dev/stdin').read_text())+1)",
    "descriptor 0": "print(int(open(0).read())+1)",
    "an unflushed file of descriptor 1": "out=open(1,'w')\nout.write(str(int(input())+1))",
    "fdopen1": "import os\nout=os.fdopen(1,'w')\nout.write(str(int(input())+1))",
    "fileio": "import io\nout=io.BufferedWriter(io.FileIO(1,'w'))\nout.write(str(int(input())+1).encode())",
    "textio": "import io,sys\nsys.stdout=io.TextIOWrapper(sys.stdout.buffer)\nprint(int(input())+1)",
    "__stdout__": (
        "import io,sys\n"
        "x=sys.stdout\n"
        "sys.stdout=io.StringIO()\n"
        "print('junk')\n"
        "sys.stdout=sys.__stdout__\n"
        "print(int(input())+1)"
    ),
    "print __stdout__": "import io,sys\nprint(int(input())+1,file=sys.__stdout__)",
    "__stdin__": "import sys\nprint(int(sys.__stdin__.readline())+1)",
    "atexit": "import atexit\natexit.register(lambda: print(int(input())+1))",
    "atexit2": "import atexit,sys\natexit.register(lambda: print(int(input())+1))\nsys.exit(0)",
    "FastIO": (
        "import sys,io,os,atexit\n"
        "sys.stdout=io.StringIO()\n"
        "atexit.register(lambda: os.write(1, sys.stdout.getvalue().encode()))\n"
        "print(int(input())+1)"
    ),
    "__del__": "class A:\n    def __del__(self): print(int(input())+1)\na=A()",
    "weakref.finalize": "import weakref\nclass A: pass\na=A()\nweakref.finalize(a, lambda: print(int(input())+1))",
    "thread": "import threading\nt=threading.Thread(target=lambda: print(int(input())+1))\nt.start()",
    "thread join": (
        "import threading,sys\n"
        "sys.setrecursionlimit(10**6)\n"
        "threading.stack_size(2**26)\n"
        "t=threading.Thread(target=lambda: print(int(input())+1))\n"
        "t.start()\n"
        "t.join()"
    ),
    "pool executor": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "ex=ThreadPoolExecutor(2)\n"
        "print(ex.submit(lambda: int(input())+1).result())"
    ),
    "daemon": (
        "import threading,time\n"
        "threading.Thread(target=lambda: time.sleep(100),daemon=True).start()\n"
        "print(int(input())+1)"
    ),
    "a process": (
        "import multiprocessing as m\n"
        "def f(n): print(n+1)\n"
        "if __name__=='__main__':\n"
        "    p=m.Process(target=f,args=(int(input()),))\n"
        "    p.start()\n"
        "    p.join()"
    ),
    "a pool of processes": (
        "import multiprocessing as m\n"
        "def f(n): return n+1\n"
        "if __name__=='__main__':\n"
        "    with m.Pool(2) as p: print(p.map(f,[int(input())])[0])"
    ),
    "a pool of any size": (
        "import multiprocessing as m\n"
        "def f(n): return n+1\n"
        "if __name__=='__main__':\n"
        "    with m.Pool() as p: print(p.map(f,[int(input())])[0])"
    ),
    "a queue of processes": (
        "import multiprocessing as m\n"
        "def f(q,n): q.put(n+1)\n"
        "if __name__=='__main__':\n"
        "    q=m.Queue()\n"
        "    p=m.Process(target=f,args=(q,int(input())))\n"
        "    p.start()\n"
        "    print(q.get())\n"
        "    p.join()"
    ),
    "a shared value": (
        "import multiprocessing as m\n"
        "def f(v,n):\n"
        "    with v.get_lock(): v.value=n+1\n"
        "if __name__=='__main__':\n"
        "    v=m.Value('i',0)\n"
        "    p=m.Process(target=f,args=(v,int(input())))\n"
        "    p.start();p.join()\n"
        "    print(v.value)"
    ),
    "ProcessPool": (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def f(n): return n+1\n"
        "if __name__=='__main__':\n"
        "    with ProcessPoolExecutor(2) as p: print(p.submit(f,int(input())).result())"
    ),
    "ProcessPool default": (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def f(n): return n+1\n"
        "if __name__=='__main__':\n"
        "    with ProcessPoolExecutor() as p: print(list(p.map(f,[int(input())]))[0])"
    ),
    "shared_memory": (
        "from multiprocessing import shared_memory\n"
        "s=shared_memory.SharedMemory(create=True,size=8)\n"
        "s.buf[0]=1\n"
        "print(int(input())+s.buf[0])\n"
        "s.close();s.unlink()"
    ),
    "asyncio": (
        "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print(int(input())+1)\nasyncio.run(main())"
    ),
    "asyncio to_thread": (
        "import asyncio\n"
        "async def main():\n"
        "    print(await asyncio.to_thread(lambda:int(input())+1))\n"
        "asyncio.run(main())"
    ),
    "asyncio subproc": (
        "import asyncio\n"
        "async def main():\n"
        "    p=await asyncio.create_subprocess_exec('expr',input(),'+','1',stdout=asyncio.subprocess.PIPE)\n"
        "    print((await p.communicate())[0].decode())\n"
        "asyncio.run(main())"
    ),
    "subprocess": ("import subprocess,sys\nprint(int(subprocess.run(['cat'],capture_output=True,text=True).stdout)+1)"),
    "subprocess child prints": "import subprocess,sys\nsubprocess.run([sys.executable,'-c','print(int(input())+1)'])",
    "fork child prints": "import os\nif os.fork()==0:\n    print(int(input())+1)\nelse: os.wait()",
    "os.system": "import os\nos.system('read x; expr $x + 1')",
    "exec": "import os\nos.execvp('sh',['sh','-c','read x; expr $x + 1'])",
    "argv": "import sys\nif len(sys.argv)>1: sys.stdin=open(sys.argv[1])\nprint(int(input())+1)",
    "fileinput": "import fileinput\nfor l in fileinput.input(): print(int(l)+1)",
    "end": "print(int(input())+1,end='')",
    "EOF": "s=0\ntry:\n    while True: s+=int(input())\nexcept EOFError: print(s+1)",
    "recursion": "def f(n): return 0 if n==0 else f(n-1)\nf(992)\nprint(int(input())+1)",
    "deep": (
        "import sys\n"
        "sys.setrecursionlimit(10**6)\n"
        "def f(n): return 0 if n==0 else f(n-1)\n"
        "f(50000)\n"
        "print(int(input())+1)"
    ),
    "stderr": "import sys\nprint('debug',file=sys.stderr)\nprint(int(input())+1)",
    "__file__": "import os\nos.path.abspath(__file__)\nprint(int(input())+1)",
    "tempfile": (
        "import tempfile\n"
        "with tempfile.TemporaryFile('w+') as f:\n"
        "    f.write(input()); f.seek(0)\n"
        "    print(int(f.read())+1)"
    ),
    "write file": "open('x','w').write(input())\nprint(int(open('x').read())+1)",
    "crlf": "import sys\nsys.stdout.write(str(int(input())+1)+'\\r\\n')",
    "buffer": "import sys\nsys.stdout.buffer.write(str(int(sys.stdin.buffer.readline())+1).encode())",
    "readlines": "import sys\nprint(int(sys.stdin.readlines()[0])+1)",
    "pickle main class": "import pickle\nclass A: pass\npickle.loads(pickle.dumps(A()))\nprint(int(input())+1)",
    "dataclass": ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nprint(A(int(input())).x+1)"),
    "mmap stdin": "import mmap\nm=mmap.mmap(0,0,prot=mmap.PROT_READ)\nprint(int(m[:])+1)",
    "stdin seek": "import sys\nsys.stdin.seek(0)\nprint(int(input())+1)",
    "signal alarm": "import signal\nsignal.alarm(60)\nprint(int(input())+1)",
    "closes stdout": "import sys\nprint(int(input())+1)\nsys.stdout.close()",
    "closes stderr": "import sys\nsys.stderr.close()\nprint(int(input())+1)",
    "help": "help\nlicense\nprint(int(input())+1)",
    "input prompt none": "print(int(input(''))+1)",
    "from __future__": "from __future__ import annotations\nprint(int(input())+1)",
    "unraisable": "import gc\nclass A:\n    def __del__(self): 1/0\nA()\nprint(int(input())+1)",
    "excepthook": (
        "import sys,os\n"
        "def h(*a):\n"
        "    print(int(input())+1,flush=True)\n"
        "    os._exit(0)\n"
        "sys.excepthook=h\n"
        "raise ValueError"
    ),
    "thread exit handler": (
        "import threading\n"
        "def f():\n"
        "    import time\n"
        "    time.sleep(0.1)\n"
        "    print(int(input())+1)\n"
        "threading.Thread(target=f).start()\n"
        "raise SystemExit(0)"
    ),
    "cpu_count": "import os\nassert os.cpu_count()>0\nprint(int(input())+1)",
    "main guard exit": (
        "import sys\n"
        "def main():\n"
        "    print(int(input())+1)\n"
        "    return 0\n"
        "if __name__=='__main__':\n"
        "    sys.exit(main())"
    ),
    "int limit": "import sys\nsys.set_int_max_str_digits(0)\nprint(int(input())+1)",
    "logging": "import logging\nlogging.basicConfig(level=10)\nlogging.info('x')\nprint(int(input())+1)",
    "ctypes": "import ctypes\nctypes.CDLL(None).puts(str(int(input())+1).encode())",
    "sqlite": (
        "import sqlite3\nc=sqlite3.connect(':memory:')\nprint(c.execute('select ?+1',(int(input()),)).fetchone()[0])"
    ),
    "decimal": "from decimal import Decimal\nprint(Decimal(input())+1)",
    "warnings error": "import warnings\nwarnings.simplefilter('error')\nprint(int(input())+1)",
    "locale": "import locale\nlocale.setlocale(locale.LC_ALL,'')\nprint(int(input())+1)",
    "runpy": "open('m.py','w').write('print(int(input())+1)')\nimport runpy\nrunpy.run_path('m.py')",
    "inspect.getsource": "import inspect\ndef f(x): return x+1\ninspect.getsource(f)\nprint(f(int(input())))",
    "traceback": ("import traceback\ntry: 1/0\nexcept ZeroDivisionError: traceback.print_exc()\nprint(int(input())+1)"),
    "stdout none then reopen": "import sys,os\nsys.stdout.flush()\nfd=os.dup(1)\nos.dup2(fd,1)\nprint(int(input())+1)",
    "own module": "open('helper.py','w').write('def f(x): return x+1')\nimport helper\nprint(helper.f(int(input())))",
    "own module after another import": (
        "try: import nothing\nexcept ImportError: pass\n"
        "with open('helper.py','w') as out: out.write('y=int(input())+1')\n"
        "from helper import y\nprint(y)"
    ),
    "own package": (
        "import os\nos.mkdir('own')\n"
        "for name, text in (('__init__', ''), ('part', 'def f(x): return x+1')):\n"
        "    with open(f'own/{name}.py','w') as out: out.write(text)\n"
        "from own.part import f\nprint(f(int(input())))"
    ),
    "own module, loaded again": (
        "import importlib\n"
        "open('helper.py','w').write('y=0')\nimport helper\n"
        "open('helper.py','w').write('y = int(input()) + 1')\nprint(importlib.reload(helper).y)"
    ),
    "own file as a process": (
        "import subprocess,sys\n"
        "if sys.argv[1:]: print(int(sys.argv[1])+1)\n"
        "else: print(subprocess.check_output([sys.executable,__file__,input()],text=True))"
    ),
    "own source": "x=int(input())\nassert 'own source' in open(__file__).read() # own source\nprint(x+1)",
    "spawn": (
        "import multiprocessing as m\ndef f(x): return x+1\n"
        "if __name__=='__main__':\n    with m.get_context('spawn').Pool(1) as p: print(*p.map(f,[int(input())]))"
    ),
    "byte order mark": "\ufeffprint(int(input())+1)",
    "space without width": "\u200bprint(int(input())+1)",
    "encoding": "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\nprint(int(input())+1)",
}

FUNCTIONS: dict[str, tuple[Any, str]] = {
    "long int": ({"call": "solve", "cases": [[[5000], 10**5000], [[1], 10]]}, "def solve(n): return 10**n"),
    "long int in list": ({"call": "solve", "cases": [[[5000], [10**5000]]]}, "def solve(n): return [10**n]"),
    "long int neg": ({"call": "solve", "cases": [[[5000], {"a": -(10**5000)}]]}, "def solve(n): return {'a':-10**n}"),
    "long input": ({"call": "solve", "cases": [[[10**5000], 1]]}, "def solve(n): return 1 if n==10**5000 else 0"),
    "exit at end": (NEXT, "def solve(x): return x+1\nexit()"),
    "sys.exit main": (NEXT, "import sys\ndef solve(x): return x+1\ndef main(): pass\nsys.exit(main())"),
    "bool sub": (NEXT, "class I(int): pass\ndef solve(x): return I(x+1)"),
    "enum": (NEXT, "import enum\nclass E(enum.IntEnum):\n    A=2\n    B=42\ndef solve(x): return E(x+1)"),
    "recursion": (NEXT, "def f(n): return 0 if n==0 else f(n-1)\ndef solve(x):\n    f(985)\n    return x+1"),
    "thread": (
        NEXT,
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "ex=ThreadPoolExecutor(2)\n"
            "def solve(x): return ex.submit(lambda: x+1).result()"
        ),
    ),
    "mp": (
        NEXT,
        (
            "import multiprocessing as m\n"
            "def f(x): return x+1\n"
            "def solve(x):\n"
            "    with m.Pool(2) as p: return p.map(f,[x])[0]"
        ),
    ),
    "asyncio": (NEXT, "import asyncio\nasync def f(x): return x+1\ndef solve(x): return asyncio.run(f(x))"),
    "prints": (NEXT, "def solve(x):\n    print('x'*1000)\n    return x+1"),
    "closes fds": (
        NEXT,
        (
            "import os\n"
            "def solve(x):\n"
            "    os.close(0); os.close(1); os.close(2)\n"
            "    os.open('/dev/null',0);os.open('/dev/null',1);os.open('/dev/null',1)\n"
            "    return x+1"
        ),
    ),
    "fence in a docstring": (NEXT, 'def solve(x):\n    """\n    ```\n    1 -> 2\n    ```\n    """\n    return x + 1'),
    "own module": (
        NEXT,
        "open('helper.py','w').write('def f(x): return x+1')\nimport helper\ndef solve(x): return helper.f(x)",
    ),
    "own module in the call": (
        NEXT,
        (
            "import importlib\n"
            "def solve(x):\n"
            "    with open(f'm{x}.py','w') as out: out.write(f'y={x}+1')\n"
            "    return importlib.import_module(f'm{x}').y"
        ),
    ),
    "byte order mark": (NEXT, "\ufeffdef solve(x): return x+1"),
    "space without width": (NEXT, "\n\u200b\u2060def solve(x): return x+1"),
    "byte order mark, indented": (NEXT, "\ufeff    def solve(x):\n        return x+1"),
}

ODD_PROGRAMS: dict[str, tuple[Any, str]] = {name: (ADD, source) for name, source in SCRIPTS.items()} | {
    f"function, {name}": pair for name, pair in FUNCTIONS.items()
}
