package plugintest

// FirstDifference is for the tests.
var FirstDifference = firstDifference
