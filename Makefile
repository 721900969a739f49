VERSION  = $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS  = -X github.com/batonrun/baton/cmd.version=$(VERSION)
LINT     = go tool -modfile=.ci/tools.mod golangci-lint
GOSDK    = cmd/clients/gosdk
CONSOLE  = transports/console/web
S3TEST   = storage/blob/cloud/s3test
CHART    = docs/helm
FUZZTIME = 30s
COUNT    = 6

.DEFAULT_GOAL := help
.PHONY: help run test raced unraced modules lint fmt fuzz bench soak check goals build console screenshots clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

run: ## Serve on http://127.0.0.1:8080, data in baton.db; needs only Go
	@echo 'Building Baton. The first time this takes a few minutes.'
	@go run -ldflags '$(LDFLAGS)' ./cmd/baton serve

# The race detector skips SQLite's code, translated from C, which it would make several times slower and which shares no data of ours, and
# code that reads each byte of JSON. Fields are still watched: reflect reads and sets them, and -l prevents inlining it into json.
unwatched = '-gcflags=$(1)=-race=false $(2)'
UNWATCHED = $(foreach p,modernc.org/sqlite/lib modernc.org/libc... modernc.org/memory,$(call unwatched,$(p),-d=checkptr=0)) \
	$(call unwatched,encoding/json,-l) $(call unwatched,unicode/utf8,)

# The packages where goroutines meet. Their tests run with the race detector, which multiplies their time, and of the simulator's a few.
RACED = $(addprefix $(shell go list -m)/,plugins plugins/mcp plugins/process runtime runtime/bus runtime/bus/natsbus runtime/calls runtime/commit runtime/exec \
	runtime/monitor runtime/offer runtime/quota runtime/tail runtime/work transports/fanout transports/ownership transports/stream)

# A few more packages and tests at once than cores, because they wait for servers and browsers; with many more a busy machine lets
# their limits of time run out. lint vets.
GOTEST = go test -vet=off -p 3 -parallel 3 -timeout 60m

test: ## Run all tests, on SQLite and PostgreSQL and with real clients
	@echo 'Installing what the tests need, then building them. go test ./PACKAGE tests one package.'
	.ci/setup
	go run ./.ci/testenv $(MAKE) --no-print-directory --keep-going raced unraced modules

raced: export GOFLAGS := $(GOFLAGS) $(UNWATCHED)
raced:
	$(GOTEST) -race $(RACED)
	$(GOTEST) -race -short -run 'TestHistories$$' ./runtime/sim

unraced:
	$(GOTEST) $(filter-out $(RACED),$(shell go list ./...))

modules:
	go -C $(GOSDK) test ./...
	go -C $(S3TEST) test ./...
	go -C $(CHART) test ./...

lint: ## Check style, import rules, module files, and that it compiles for Windows
	go mod tidy -diff
	go -C $(GOSDK) mod tidy -diff
	go -C $(S3TEST) mod tidy -diff
	go -C $(CHART) mod tidy -diff
	go fix -diff ./...
	go run -modfile=.ci/tools.mod ./.ci/typecheck windows ./cmd/baton
	$(LINT) run

fmt: ## Format the code and apply go fix
	go fix ./...
	$(LINT) fmt

fuzz: ## Fuzz each target for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	while IFS=: read -r file func; do \
		echo "$$(dirname $$file) $${func#func }"; \
		go test -run='^$$' -fuzz="^$${func#func }\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x \
			"$$(dirname $$file)" </dev/null || exit 1; \
	done

bench: ## Measure the real program on SQLite and PostgreSQL, then run the Go benchmarks COUNT (6) times
	.ci/setup
	COUNT=$(COUNT) .ci/bench

soak: ## Run the end-to-end tests at full length, up to six hours, then HISTORIES (a million) through the simulator
	.ci/setup
	BATON_SOAK=1 go test -count=1 -timeout 350m . ./plugins/llm ./storage ./cmd/...
	BALANCED=1 go test -count=1 -timeout 120m -parallel 1 ./cmd/clients # three servers and a balancer for each test
	BATON_SOAK=1 go test -count=1 -timeout 0 ./runtime/sim -histories $(or $(HISTORIES),1000000)

check: test lint goals ## Run what CI runs

goals: ## Check how large the code is and how its files depend on each other, beside the limits
	go run -modfile=.ci/tools.mod ./.ci/goals

build: ## Build bin/baton
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(LDFLAGS)' -o bin/baton ./cmd/baton

console: ## Build the embedded console from transports/console/web
	.ci/setup
	go test ./cmd/clients -count=1 -run TestConsole_FitsAPI -update
	npm --prefix $(CONSOLE) run --silent build

screenshots: build ## Take the pictures of the console in docs/console
	.ci/setup
	node cmd/clients/browser/screenshots.mjs bin/baton docs/console

clean: ## Remove built files; the database stays
	rm -rf bin coverage.out
