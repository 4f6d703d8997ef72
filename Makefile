# make alone prints what there is. CI runs the targets that .ci/run lists, so
# what is red there is red here by the same name.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
GO ?= go

# The rooms in which goroutines meet. The others are pure or single-threaded,
# and a second pass over them would buy nothing for its minutes.
CONCURRENT := ./actors/... ./gateway/... ./persistence/... ./tools/... ./models/... ./cmd/...

.PHONY: page judges dashboards pictures help release release-check run build test race lint generate golden bench bench-once bench-peers bench-record bench-rooms bench-start hostile receipts model-receipts shape crash cluster chaos chaos-runtimes damage mutants e2e claude ci fuzz setup soak vendor image chart

help: ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## build and start the server with config.toml (http://127.0.0.1:8080)
	$(GO) run ./cmd/parley

build: ## bin/parley and its development programs, static, without symbol tables
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/ ./cmd/...

setup: ## install what the tests need and this machine lacks (Debian, root; without, it says what is missing)
	@rm -f .tools/not-tested.txt
	@bash .ci/setup

# Without root or apt-get it leaves out what it lacks, and closes with the list. go test alone would not show what
# tests say that were left out, so .ci/tested reads along. The files are git's; in an unpacked archive, all.
TESTED = | $(GO) run ./.ci/tested .tools/not-tested.txt
test: setup ## everything but -race: vet, gofmt, all tests (ROOMS=./metrics/...: the tests of these)
	@mkdir -p .tools
	@echo "== go vet"
	$(GO) vet $(or $(ROOMS),./... ./.ci/tested)
	$(if $(ROOMS),,$(GO) vet -tags e2e ./cmd/parley)
	@echo "== gofmt"
	@files=$$(git ls-files -co --exclude-standard '*.go' 2>/dev/null) || \
		files=$$(find . -name '*.go' -not -path './.tools/*' -not -path './bin/*' -not -path './dist/*'); \
	unformatted=$$(gofmt -l $$files); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	@echo "== go test"
	@$(GO) test -json -timeout 15m $(or $(ROOMS),./... ./.ci/tested) $(TESTED)
	@$(if $(ROOMS),,echo "== the dashboards are what their generator makes, and valid"; cd .ci/grafana && $(GO) vet . && $(GO) test .)
	@$(if $(ROOMS),,echo "== the page in a browser"; $(GO) test -json -tags e2e -timeout 10m -run '^TestPage' ./cmd/parley $(TESTED))
	@$(if $(ROOMS),,echo "== every query of the dashboards and alerts, in a real Prometheus"; $(GO) test -json -tags e2e -timeout 5m -run '^TestDashboard' ./cmd/parley $(TESTED))
	@$(if $(ROOMS),,echo "== the official SDKs of other protocols, the examples, and push notifications in a cluster"; $(GO) test -json -tags e2e -timeout 10m -run '^(TestJudge|TestExample|TestPush)' ./cmd/parley $(TESTED))
	@$(GO) run ./.ci/tested -list .tools/not-tested.txt

release: ## dist/: archives for linux and darwin, checksums, SBOMs (VERSION=v1.2.3; about 6 minutes, 1 from the cache)
	@bash .ci/release

image: ## the container image parley:VERSION (ENGINE=docker; podman and buildah do, too; VERSION=v1.2.3)
	version=$(or $(VERSION),$$(git describe --tags --always --dirty)); \
	$(or $(ENGINE),docker) build -t parley:$$version --build-arg VERSION=$$version --build-arg REVISION=$$(git rev-parse HEAD) \
		--build-arg DATE=$$(git log -1 --format=%cI) .

chart: ## dist/: the Helm chart with the dashboards and rules (VERSION=v1.2.3)
	@bash .ci/chart && ls dist/*.tgz

release-check: ## the same, twice: are the bytes the same, do the archives hold what they should? (all platforms)
	PARLEY_RELEASE=all $(GO) test ./cmd/parley/deploy -run '^TestRelease$$' -count=1 -v -timeout 30m

race: ## the tests of the concurrent rooms under the race detector
	@echo "== go test -race"
	$(GO) test -race -short -timeout 20m $(CONCURRENT)

judges: setup ## the official SDKs of other protocols against the server, and the examples
	$(GO) test -tags e2e -count=1 -timeout 10m -v -run '^(TestJudge|TestExample)' ./cmd/parley | grep -v '^=== '

# A target is a function Fuzz… of a test file; each runs alone, for FUZZTIME.
fuzz: ## every fuzz target for a minute (about 20; FUZZTIME=10s, ROOMS=./gateway/...)
	@for dir in $$($(GO) list -f '{{.Dir}}' $(or $(ROOMS),./...)); do \
		for name in $$(cat $$dir/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(f .*/\1/p'); do \
			echo "== $${dir#$(CURDIR)/} $$name"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),60s) $$dir; \
		done; \
	done

# The linter is a tool of a module of its own, .ci/lint: its 200 modules are not
# ours. The first run builds it (about two minutes of CPU); then the Go build
# cache has it.
lint: ## golangci-lint with the reasons in .golangci.yml
	@echo "== golangci-lint (built once, about two minutes)"
	$(GO) tool -modfile=.ci/lint/go.mod golangci-lint run ./...

bench-once: ## every benchmark once, so that none of them rots
	@echo "== go test -bench, one iteration each"
	$(GO) test -short -run '^$$' -bench . -benchtime 1x -timeout 5m ./...

generate: page ## protobuf code (protoc; protoc-gen-go is built at its pinned version) and the page's bundle again
	GOBIN=$(CURDIR)/.tools $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go
	PATH="$(CURDIR)/.tools:$$PATH" $(GO) generate ./...

# esbuild is a tool of a module of its own, as the linter is. A module that is loaded by import() is named here
# too, so that its file has its name. bundle.txt has the checksums of what went in and of what came out; a test compares.
page: ## the page's bundle again, after a change of its files (esbuild, built once in 20 s)
	@rm -rf gateway/web/bundle .tools/page && mkdir -p .tools && cp -R gateway/web/page .tools/page && cp clients/js/client.js .tools/page
	@$(GO) tool -modfile=.ci/bundle/go.mod esbuild $(addprefix .tools/page/,app.js early.js grammar.js colours.js later.js style.css) \
		--bundle --splitting --format=esm --minify --target=es2023 \
		--chunk-names=shared-[hash] --outdir=gateway/web/bundle --log-level=warning
	@LC_ALL=C sha256sum .ci/bundle/go.mod clients/js/client.js $$(find gateway/web/page -name '*.js' -o -name '*.css' | LC_ALL=C sort) gateway/web/bundle/* > gateway/web/bundle.txt

# npm only fetches: a file of the page is a file of the package, and the test compares its checksum.
vendor: ## the page's libraries again, as gateway/web/vendor.txt pins them (npm)
	@mkdir -p .tools
	@grep -v '^#' gateway/web/vendor.txt | while read -r file package version path sum; do \
		tarball=$$(npm pack --silent --pack-destination .tools "$$package@$$version"); \
		tar -xzOf ".tools/$$tarball" "package/$$path" > "gateway/web/page/vendor/$$file"; \
		echo "$$sum  gateway/web/page/vendor/$$file" | sha256sum --check; \
	done

# The generator is a module of its own, so that Grafana's SDK is no dependency of the server.
dashboards: ## metrics/grafana/*.json again, after a change of .ci/grafana (RUNBOOK=where operators read OPERATIONS.md)
	cd .ci/grafana && $(GO) run . -dir $(CURDIR)/metrics/grafana $(if $(RUNBOOK),-runbook "$(RUNBOOK)")

pictures: setup ## docs/dashboards/*.png and the table of all queries again, from a server under load (about 2 minutes)
	@mkdir -p bin
	DASHBOARD_PICTURES=$(CURDIR)/docs/dashboards PARLEY_QUERY_TABLE=$(CURDIR)/bin/queries.md $(GO) test -tags e2e -count=1 -timeout 10m -run '^TestDashboard' ./cmd/parley

golden: ## rewrite the golden files; read the diff and explain it in the commit
	$(GO) test ./conversation/machine ./conversation/wire $$(grep -rlE 'gatewaytest"|"rewrite"' --include=*_test.go gateway | xargs -n1 dirname | sort -u | sed 's,^,./,') ./models/openai ./models/anthropic ./clients/js ./metrics ./cmd/parley ./cmd/parley-bench/internal/scaling -run 'Golden|Transcript|LinkedModules|HoldsTheTables' -rewrite
	@git --no-pager diff --stat

bench: ## the tables of the README: server against its baselines (about 7 minutes; BEFORE=another parley: in turn with it; ARGS=…)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench run $(if $(BEFORE),--server before=$(BEFORE) --server after=./bin/parley,--server ./bin/parley) $(ARGS)

# The programs of others come from npm and from Go modules that only these need, below bin/peers.
# What cannot be had is a row that says NOT RUN and why.
bench-peers: ## the server beside Restate (turns) and centrifuge (fan-out, resume), in turn (about 4 minutes; ROUNDS=3)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench peers --server ./bin/parley --rounds $(or $(ROUNDS),3)

bench-record: ## the same, and its ratios and counts as a new entry of cmd/parley-bench/history.toml
	$(MAKE) bench ARGS="--record cmd/parley-bench/history.toml --commit $$(git rev-parse --short HEAD) $(ARGS)"

bench-rooms: ## where a turn's processor time and allocations go, by room (BLOCK=1: waits, too; DIR=… keeps the profiles)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench profile --server ./bin/parley $(if $(BLOCK),--block) $(if $(DIR),--dir $(DIR))

soak: ## sessions made and erased at a rate: is anything left behind? (RATE=150 TIME=5m)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench soak --server ./bin/parley --rate $(or $(RATE),150) --duration $(or $(TIME),5m)

# It connects to the loopback only, is bounded in time, rate and number, and kills a server that holds more than 1.5 GB.
hostile: ## attacks on the server beside an honest client, and on its end (about 6 minutes; BEFORE=another parley; ONLY=pings,end)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench hostile --server ./bin/parley $(if $(BEFORE),--base $(BEFORE)) $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-start: ## how long starts take with SESSIONS (100000) sessions on the disk
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	rm -rf bin/filled && PARLEY_FILL=$(CURDIR)/bin/filled PARLEY_SESSIONS=$(or $(SESSIONS),100000) $(GO) test ./persistence/pebble -run '^$$' -bench '^BenchmarkFill$$' -benchtime 1x
	./bin/parley-bench start --server ./bin/parley --data $(CURDIR)/bin/filled
	rm -rf bin/filled

receipts: ## the rules alone: how many receipts are true in everyday conversations, for nine kinds of model (CONVERSATIONS=… SEED=…)
	@$(GO) test ./conversation/machine -run '^TestEverydayReceipts$$' -count=1 -v -receipts.conversations=$(or $(CONVERSATIONS),10000) -receipts.seed=$(or $(SEED),2000000) | grep "|\|conversations\|seed"

model-receipts: ## a real model: how many of its receipts are true (CONFIG=config.toml MODEL=… EVERYDAY=24 SEED=…; without: the scripted one)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench receipts --server ./bin/parley $(if $(CONFIG),--config $(CONFIG)) $(if $(MODEL),--model $(MODEL)) $(if $(EVERYDAY),--everyday $(EVERYDAY)) $(if $(SEED),--seed $(SEED))

shape: ## packages with lines, exported names, largest type, layers and comments
	@$(GO) test ./cmd/parley -run TestHouseShape -count=1 -v -shape | grep "^|"

crash: ## kill -9 under load, again and again (SEED=… ROUNDS=…)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench crash --server ./bin/parley --rounds $(or $(ROUNDS),50) $(if $(SEED),--seed $(SEED))

cluster: ## a PostgreSQL and three nodes on this machine, to look at; Ctrl-C ends all (NODES=3 ARGS="--gateway")
	@mkdir -p bin
	@$(GO) build -o bin/ ./cmd/...
	@./bin/parley-bench cluster --server ./bin/parley --nodes $(or $(NODES),3) $(ARGS)

# PostgreSQL is started by it, with a synchronous standby; 60 faults take about ten minutes.
chaos: ## a cluster whose nodes and database are killed, frozen and replaced under load (FAULTS=60 SEED=…)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench chaos --server ./bin/parley --faults $(or $(FAULTS),60) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos-runtimes: ## outside runtimes and the server killed at random while messages are answered (MESSAGES=… SEED=…)
	@mkdir -p bin
	$(GO) build -o bin/ ./cmd/...
	./bin/parley-bench runtimes --server ./bin/parley --messages $(or $(MESSAGES),10000) $(if $(SEED),--seed $(SEED))

mutants: ## one mistake after the other, put into the code: which do the tests miss? (RUN=… LONG=1)
	nice $(GO) run ./cmd/parley-mutants $(if $(LONG),,-short) $(if $(RUN),-run "$(RUN)")

damage: ## a store damaged in 500 ways: refused, whole, told or silent (SEED=… DAMAGES=…)
	PARLEY_DAMAGE=$(or $(DAMAGES),500) PARLEY_SEED=$(SEED) $(GO) test ./persistence/pebble -run '^TestDamage$$' -count=1 -v -timeout 30m

e2e: setup ## the tests that start the whole server, and the browser
	$(GO) test -tags e2e -count=1 -timeout 10m ./cmd/... ./gateway/web/...

# The program is not ours to pass on, so the first run installs it. Without npm, or without
# this target, its tests say NOT RUN.
claude: ## the real claude command behind the server, with a stand-in of its service (CLAUDE=version)
	npm install --silent --prefer-offline --no-audit --no-fund --prefix .tools/claude @anthropic-ai/claude-code@$(or $(CLAUDE),2.1.330)
	PARLEY_CLAUDE=$(CURDIR)/.tools/claude/node_modules/.bin/claude $(GO) test ./cmd/parley -run '^TestClaude' -count=1 -v -timeout 10m

ci: ## what CI runs
	bash .ci/run
