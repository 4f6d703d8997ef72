// Package finite tells whether values can be checked against a JSON schema of somebody
// else's in a time that has an end.
package finite
