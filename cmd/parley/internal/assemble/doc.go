// Package assemble makes of a configuration what a run needs: the models with
// their limits and fallbacks, the tools of MCP servers, the rules with their
// agents, and the options of the engine, the gateway and the store.
//
// Main calls it once at the start, in the order store, models, tools, engine,
// gateway; OpenModels and OpenMCP return what is to be closed again. Goroutines
// belong to what is opened here, none to the package.
package assemble
